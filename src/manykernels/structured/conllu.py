"""Sentences in CoNLL-U: words, tags and the head of every word."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from manykernels.base.disk import read_whole, unpacked

PathLike = str | os.PathLike[str]

N_COLUMNS = 10
BLANK = "_"


@dataclass(frozen=True)
class Sentence:
    """The words of a sentence, column by column.

    Parameters
    ----------
    forms, lemmas, upos, xpos, feats, deprels, misc : tuple of str
        One entry per word, as the file has it; "_" stands for nothing.
    heads : tuple of int, optional
        For each word the position of its head, 1 for the first word, 0 for the root;
        None where the file has none.
    comments : tuple of str
        Lines before the words, with their "#".
    ranges : tuple of (int, str)
        Multiword tokens such as "don't": the position of the first word, and the line.
    deps : tuple of str
        Enhanced dependencies, kept as they are; empty if no word has any.
    empty_nodes : tuple of (int, str)
        Lines of words that are not there ("8.1"): the position before, and the line.

    Examples
    --------
    >>> Sentence.of(["They", "sleep"], upos=["PRON", "VERB"], heads=[2, 0]).heads
    (2, 0)
    """

    forms: tuple[str, ...]
    lemmas: tuple[str, ...]
    upos: tuple[str, ...]
    xpos: tuple[str, ...]
    feats: tuple[str, ...]
    heads: tuple[int, ...] | None
    deprels: tuple[str, ...]
    misc: tuple[str, ...]
    comments: tuple[str, ...] = ()
    ranges: tuple[tuple[int, str], ...] = ()
    deps: tuple[str, ...] = ()
    empty_nodes: tuple[tuple[int, str], ...] = ()

    @classmethod
    def of(
        cls,
        forms: Iterable[str],
        upos: Iterable[str] | None = None,
        heads: Iterable[int] | None = None,
        lemmas: Iterable[str] | None = None,
        xpos: Iterable[str] | None = None,
        feats: Iterable[str] | None = None,
        deprels: Iterable[str] | None = None,
    ) -> Sentence:
        """A sentence from its words and what is known of them."""
        words = tuple(forms)
        nothing = (BLANK,) * len(words)
        texts = [
            nothing if column is None else tuple(column)
            for column in (lemmas, upos, xpos, feats, deprels)
        ]
        places = None if heads is None else tuple(int(head) for head in heads)
        for column in (*texts, nothing if places is None else places):
            if len(column) != len(words):
                raise ValueError(
                    f"expected {len(words)} entries, one per word, got {len(column)}; "
                    "give every column the same length."
                )
        lemma, coarse, fine, inflection, relations = texts
        return cls(words, lemma, coarse, fine, inflection, places, relations, nothing)

    @property
    def has_relations(self) -> bool:
        """Whether any word has one."""
        return any(relation != BLANK for relation in self.deprels)

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The last three letters of every word."""
        return tuple(form[-3:].lower() for form in self.forms)

    def __len__(self) -> int:
        """Words of the sentence."""
        return len(self.forms)


def without_trees(sentences: Iterable[Sentence]) -> list[Sentence]:
    """The sentences as they are before they are parsed.

    Examples
    --------
    >>> without_trees([Sentence.of(["Go"], heads=[0], deprels=["root"])])[0].deprels
    ('_',)
    """
    return [replace(s, heads=None, deprels=(BLANK,) * len(s)) for s in sentences]


def read_conllu(path: PathLike) -> list[Sentence]:
    """Sentences of a CoNLL-U file, plain or gzipped.

    Multiword tokens ("1-2") and empty nodes ("8.1") are no words; their lines are kept,
    in `Sentence.ranges` and `Sentence.empty_nodes`, as are enhanced dependencies.

    Examples
    --------
    >>> sentences = read_conllu("en_ewt-ud-test.conllu.gz")  # doctest: +SKIP
    >>> sentences[0].forms[:3], sentences[0].heads[:3]  # doctest: +SKIP
    (('What', 'if', 'Google'), (0, 4, 4))
    """
    with open(path, "rb") as stream:
        content = read_whole(stream, "a CoNLL-U file")
    if content[:2] == b"\x1f\x8b":
        try:
            content = unpacked(content, "an unpacked CoNLL-U file")
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(
                f"{path} is damaged or not a gzip file ({error}); replace it."
            ) from error
    return list(parse_conllu(content, str(path)))


def parse_conllu(content: bytes | str, name: str = "CoNLL-U") -> Iterator[Sentence]:
    r"""Sentences of a text, one after the other.

    Examples
    --------
    >>> line = "1\tGo\tgo\tVERB\tVB\t_\t0\troot\t_\t_\n"
    >>> [len(sentence) for sentence in parse_conllu(line + "\n" + line)]
    [1, 1]
    """
    part = _SentenceLines(name)
    for number, line in enumerate(io.StringIO(_decoded(content, name)), 1):
        line = line.rstrip("\r\n")
        if line.strip():
            part.add(number, line)
        elif part.lines:
            yield part.sentence()
            part = _SentenceLines(name)
    if part.lines:
        yield part.sentence()


def format_conllu(sentences: Iterable[Sentence]) -> str:
    """The text of sentences; what `parse_conllu` reads it gives back.

    Examples
    --------
    >>> print(format_conllu([Sentence.of(["Go"], ["VERB"], [0])]).strip())
    1	Go	_	VERB	_	_	0	_	_	_
    """
    return "".join(_formatted(sentence) for sentence in sentences)


def write_conllu(path: PathLike, sentences: Iterable[Sentence]) -> None:
    """Write sentences to a file, gzipped if its name ends in ".gz".

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "one.conllu"
    ...     write_conllu(path, [Sentence.of(["Go"], ["VERB"], [0])])
    ...     [sentence.forms for sentence in read_conllu(path)]
    [('Go',)]
    """
    content = format_conllu(sentences).encode()
    if str(path).endswith(".gz"):
        content = gzip.compress(content, mtime=0)
    Path(path).write_bytes(content)


def _formatted(sentence: Sentence) -> str:
    lines = list(sentence.comments)
    ranges, empty_nodes = _by_place(sentence.ranges), _by_place(sentence.empty_nodes)
    heads = sentence.heads or (BLANK,) * len(sentence)
    deps = sentence.deps or (BLANK,) * len(sentence)
    lines += empty_nodes.get(0, [])
    for i in range(len(sentence)):
        lines += ranges.get(i + 1, [])
        cells = [str(i + 1), sentence.forms[i], sentence.lemmas[i], sentence.upos[i]]
        cells += [sentence.xpos[i], sentence.feats[i], str(heads[i])]
        cells += [sentence.deprels[i], deps[i], sentence.misc[i]]
        lines += ["\t".join(cells), *empty_nodes.get(i + 1, [])]
    return "\n".join(lines) + "\n\n"


def _by_place(lines: Iterable[tuple[int, str]]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for place, line in lines:
        found.setdefault(place, []).append(line)
    return found


def _decoded(content: bytes | str, name: str) -> str:
    if isinstance(content, str):
        return content
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"expected text in UTF-8 in {name}, got the byte "
            f"{error.object[error.start]:#x} in line {line}; convert the file."
        ) from error


class _SentenceLines:
    """The lines of one sentence while they are read."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines = 0
        self.comments: list[str] = []
        self.ranges: list[tuple[int, str]] = []
        self.empty_nodes: list[tuple[int, str]] = []
        self.words: list[list[str]] = []
        self.numbers: list[int] = []  # line of each word
        self.last = 0

    def add(self, number: int, line: str) -> None:
        """Take in one line."""
        self.lines += 1
        self.last = number
        if line.startswith("#"):
            self.comments.append(line)
            return
        cells = line.split("\t")
        if len(cells) != N_COLUMNS:
            self._fail(
                number,
                f"{N_COLUMNS} columns separated by tabs",
                f"{len(cells)} in {line[:40]!r}",
                "separate the columns with single tabs",
            )
        position = cells[0]
        if "-" in position:
            self._add_range(number, line, position)
        elif "." in position:
            self.empty_nodes.append((len(self.words), line))
        else:
            self._add_word(number, cells)

    def sentence(self) -> Sentence:
        """The sentence, once its last line is in."""
        if not self.words:
            self._fail(self.last, "words after the comments", "none", "add them")
        columns = [tuple(column) for column in zip(*self.words, strict=True)]
        _, forms, lemmas, upos, xpos, feats, _, deprels, deps, misc = columns
        return Sentence(
            forms,
            lemmas,
            upos,
            xpos,
            feats,
            self._heads(columns[6]),
            deprels,
            misc,
            tuple(self.comments),
            tuple(self.ranges),
            () if all(cell == BLANK for cell in deps) else deps,
            tuple(self.empty_nodes),
        )

    def _add_range(self, number: int, line: str, position: str) -> None:
        first, _, last = position.partition("-")
        whole = _is_number(first) and _is_number(last)
        if not whole or not len(self.words) < int(first) <= int(last):
            self._fail(
                number,
                f"a range of positions after {len(self.words)}",
                repr(position),
                "correct the first column",
            )
        self.ranges.append((int(first), line))

    def _add_word(self, number: int, cells: list[str]) -> None:
        expected = len(self.words) + 1
        if cells[0] != str(expected):
            self._fail(
                number,
                f"position {expected} in the first column",
                repr(cells[0]),
                "number the words 1, 2, ... and end every sentence with an empty line",
            )
        self.words.append(cells)
        self.numbers.append(number)

    def _heads(self, column: tuple[str, ...]) -> tuple[int, ...] | None:
        """Positions of the heads; None if no word has one."""
        if all(cell == BLANK for cell in column):
            return None
        for i, cell in enumerate(column):
            inside = _is_number(cell) and int(cell) <= len(column)
            if not inside or int(cell) == i + 1:
                self._fail(
                    self.numbers[i],
                    f"the head of word {i + 1}, another position from 0 to "
                    f"{len(column)}",
                    repr(cell),
                    "correct the seventh column",
                )
        return tuple(int(cell) for cell in column)

    def _fail(self, number: int, expected: str, got: str, advice: str) -> NoReturn:
        raise ValueError(
            f"expected {expected} in line {number} of {self.name}, got {got}; {advice}."
        )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10
