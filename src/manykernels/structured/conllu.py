"""Sentences in CoNLL-U: words, tags and the head of every word."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from manykernels.base.disk import read_whole, unpacked

PathLike = str | os.PathLike[str]

LineProblem = tuple[str, str, str]  # expected, got, advice

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
        Lines of words that only enhanced dependencies use ("8.1"): the position before,
        and the line.

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
        """A sentence from its words and some of their columns."""
        words = tuple(forms)
        blanks = (BLANK,) * len(words)
        texts = [
            blanks if column is None else tuple(column)
            for column in (lemmas, upos, xpos, feats, deprels)
        ]
        places = None if heads is None else tuple(int(head) for head in heads)
        for column in (*texts, blanks if places is None else places):
            if len(column) != len(words):
                raise ValueError(
                    f"expected {len(words)} entries, one per word, got {len(column)}; "
                    "give every column the same length."
                )
        lemma, coarse, fine, inflection, relations = texts
        return cls(words, lemma, coarse, fine, inflection, places, relations, blanks)

    @property
    def has_relations(self) -> bool:
        """Whether any word has a relation to its head."""
        return any(relation != BLANK for relation in self.deprels)

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The last three letters of every word."""
        return tuple(form[-3:].lower() for form in self.forms)

    def __len__(self) -> int:
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
    r"""Iterate over the sentences of a text.

    Examples
    --------
    >>> line = "1\tGo\tgo\tVERB\tVB\t_\t0\troot\t_\t_\n"
    >>> [len(sentence) for sentence in parse_conllu(line + "\n" + line)]
    [1, 1]
    """
    lines: list[tuple[int, str]] = []
    for number, line in enumerate(io.StringIO(_decoded(content, name)), 1):
        # An empty line ends a sentence; the file's last one may lack it.
        if line.strip():
            lines.append((number, line.rstrip("\r\n")))
        elif lines:
            yield _read_sentence(lines, name)
            lines = []
    if lines:
        yield _read_sentence(lines, name)


def format_conllu(sentences: Iterable[Sentence]) -> str:
    """Return the text of sentences, from which `parse_conllu` makes them again.

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
    heads = sentence.heads or (BLANK,) * len(sentence)
    deps = sentence.deps or (BLANK,) * len(sentence)
    lines += [line for place, line in sentence.empty_nodes if place == 0]
    for i in range(len(sentence)):
        lines += [line for place, line in sentence.ranges if place == i + 1]
        cells = [str(i + 1), sentence.forms[i], sentence.lemmas[i], sentence.upos[i]]
        cells += [sentence.xpos[i], sentence.feats[i], str(heads[i])]
        cells += [sentence.deprels[i], deps[i], sentence.misc[i]]
        lines.append("\t".join(cells))
        lines += [line for place, line in sentence.empty_nodes if place == i + 1]
    return "\n".join(lines) + "\n\n"


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


def _read_sentence(lines: list[tuple[int, str]], name: str) -> Sentence:
    """One sentence from its lines, each with its number."""
    comments: list[str] = []
    words: list[list[str]] = []
    word_lines: list[int] = []
    ranges: list[tuple[int, str]] = []
    empty_nodes: list[tuple[int, str]] = []
    for number, line in lines:
        if line.startswith("#"):
            comments.append(line)
            continue
        cells = line.split("\t")
        if problem := _problem(line, cells, len(words)):
            raise _bad_line(name, number, problem)
        if "-" in cells[0]:
            ranges.append((int(cells[0].partition("-")[0]), line))
        elif "." in cells[0]:
            empty_nodes.append((len(words), line))
        else:
            words.append(cells)
            word_lines.append(number)
    if not words:
        problem = ("words after the comments", "none", "add them")
        raise _bad_line(name, lines[-1][0], problem)
    columns = [tuple(column) for column in zip(*words, strict=True)]
    _, forms, lemmas, upos, xpos, feats, _, deprels, deps, misc = columns
    return Sentence(
        forms,
        lemmas,
        upos,
        xpos,
        feats,
        _read_heads(columns[6], word_lines, name),
        deprels,
        misc,
        tuple(comments),
        tuple(ranges),
        () if all(cell == BLANK for cell in deps) else deps,
        tuple(empty_nodes),
    )


def _problem(line: str, cells: list[str], n_words: int) -> LineProblem | None:
    """What is expected of a line behind some words, what it is, and what to do."""
    if len(cells) != N_COLUMNS:
        got = f"{len(cells)} in {line[:40]!r}"
        expected = f"{N_COLUMNS} columns separated by tabs"
        return expected, got, "separate the columns with single tabs"
    position = cells[0]
    if "-" in position:
        first, _, last = position.partition("-")
        whole = _is_number(first) and _is_number(last)
        if not whole or not n_words < int(first) <= int(last):
            expected = f"a range of positions after {n_words}"
            return expected, repr(position), "correct the first column"
    elif "." not in position and position != str(n_words + 1):
        return (
            f"position {n_words + 1} in the first column",
            repr(position),
            "number the words 1, 2, ... and end every sentence with an empty line",
        )
    return None


def _read_heads(
    column: tuple[str, ...], lines: list[int], name: str
) -> tuple[int, ...] | None:
    """Positions of the heads; None if no word has one."""
    if all(cell == BLANK for cell in column):
        return None
    for i, cell in enumerate(column):
        inside = _is_number(cell) and int(cell) <= len(column)
        if not inside or int(cell) == i + 1:
            expected = (
                f"the head of word {i + 1}, another position from 0 to {len(column)}"
            )
            problem = (expected, repr(cell), "correct the seventh column")
            raise _bad_line(name, lines[i], problem)
    return tuple(int(cell) for cell in column)


def _bad_line(name: str, number: int, problem: LineProblem) -> ValueError:
    expected, got, advice = problem
    return ValueError(
        f"expected {expected} in line {number} of {name}, got {got}; {advice}."
    )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10
