"""Small changes to bytes and texts, all drawn from one generator."""

import numpy as np

# What parsers trip over: quotes, separators, odd numbers, odd bytes.
TOKENS = [
    *(b"nan", b"inf", b"-1", b"1e999", b"1e-320", b"0", b"99999", b"1_0", b"0x1p3"),
    *(b'"', b"'", b",", b";", b":", b"\t", b" ", b"\n", b"\r", b"\x00", b"\xff\xfe"),
    *(b"#", b"=", b"[", b"]", b"{", b"}", b"\\", b"%", b"%zz", b"@", b"*", b"+"),
    *("é".encode(), "½".encode(), "٣".encode(), b"\xef\xbb\xbf", b"None", b"true"),
]


CELLS = [
    *(b"", b"0", b"-1", b"1", b"2", b"3", b"99999999999999999999", b"1e999", b"nan"),
    *(b"inf", b"-inf", b"1.5", b"1,5", b"x", b"_", b"?", b"None", b"True", b"1-2"),
    *(b"2-1", b"1.1", b"0.1", b"1:1", b"0:1", b"-3:1", b"999999999:1", b"1:nan"),
    *(b"1:", b":1", b'"', b'"a', b"a\tb", b"#", b"# x = y", b"\xff", b"\x00", b" "),
    *("é".encode(), "٣".encode(), b"y", b"a", b"1_000", b"0x10", b"a" * 5000),
]


def mutated(rng: np.random.Generator, content: bytes) -> bytes:
    """The content after a few changes, most often one."""
    for _ in range(rng.geometric(0.6)):
        change = CHANGES[rng.integers(len(CHANGES))]
        content = change(rng, content)
    return content


def changed_cell(rng: np.random.Generator, content: bytes, separator: bytes) -> bytes:
    """A table with another cell, or with cells or lines that go, come twice or move."""
    lines = [line.split(separator) for line in content.split(b"\n")]
    line = one_of(rng, lines)
    place = int(rng.integers(len(line)))
    choice = int(rng.integers(8))
    if choice <= 2:
        line[place] = one_of(rng, CELLS)
    elif choice == 3:
        line[place] = mutated(rng, line[place])
    elif choice == 4:
        del line[place]
    elif choice == 5:
        line.insert(place, one_of(rng, CELLS))
    elif choice == 6:
        lines.insert(int(rng.integers(len(lines))), list(one_of(rng, lines)))
    else:
        other = one_of(rng, lines)
        at = int(rng.integers(len(other))) if other else 0
        if other:
            line[place], other[at] = other[at], line[place]
    return b"\n".join(map(separator.join, lines))


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
