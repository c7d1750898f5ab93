"""Small changes to bytes and texts, all drawn from one generator."""

import numpy as np

# What parsers trip over: quotes, separators, odd numbers, odd bytes.
TOKENS = [
    *(b"nan", b"inf", b"-1", b"1e999", b"1e-320", b"0", b"99999", b"1_0", b"0x1p3"),
    *(b'"', b"'", b",", b";", b":", b"\t", b" ", b"\n", b"\r", b"\x00", b"\xff\xfe"),
    *(b"#", b"=", b"[", b"]", b"{", b"}", b"\\", b"%", b"%zz", b"@", b"*", b"+"),
    *("é".encode(), "½".encode(), "٣".encode(), b"\xef\xbb\xbf", b"None", b"true"),
]


def mutated(rng: np.random.Generator, content: bytes) -> bytes:
    """The content after a few changes, most often one."""
    for _ in range(rng.geometric(0.6)):
        change = CHANGES[rng.integers(len(CHANGES))]
        content = change(rng, content)
    return content


def one_of(rng: np.random.Generator, choices: list) -> object:
    return choices[int(rng.integers(len(choices)))]


def _span(rng, content):
    start = int(rng.integers(len(content) + 1))
    return start, min(len(content), start + int(rng.integers(1, 12)))


def _flip(rng, content):
    if not content:
        return content
    changed = bytearray(content)
    changed[rng.integers(len(changed))] = rng.integers(256)
    return bytes(changed)


def _other_digit(rng, content):
    places = [i for i, byte in enumerate(content) if 48 <= byte <= 57]
    if not places:
        return content
    changed = bytearray(content)
    changed[one_of(rng, places)] = 48 + rng.integers(10)
    return bytes(changed)


def _delete(rng, content):
    start, end = _span(rng, content)
    return content[:start] + content[end:]


def _insert_token(rng, content):
    start, _ = _span(rng, content)
    return content[:start] + one_of(rng, TOKENS) + content[start:]


def _replace_with_token(rng, content):
    start, end = _span(rng, content)
    return content[:start] + one_of(rng, TOKENS) + content[end:]


def _repeat(rng, content):
    start, end = _span(rng, content)
    return content[:end] + content[start:end] * int(rng.integers(1, 4)) + content[end:]


def _move(rng, content):
    start, end = _span(rng, content)
    rest = content[:start] + content[end:]
    place = int(rng.integers(len(rest) + 1))
    return rest[:place] + content[start:end] + rest[place:]


def _truncate(rng, content):
    return content[: int(rng.integers(len(content) + 1))]


CHANGES = [
    *(
        _flip,
        _other_digit,
        _other_digit,
        _delete,
        _insert_token,
        _insert_token,
        _replace_with_token,
    ),
    *(_repeat, _move, _truncate),
]
