"""Gene sets from GMT files: a name, a description and genes on every line."""

from __future__ import annotations

import gzip
import io
import os
import re
import sys
import zlib
from typing import IO, Any

from manykernels.base.disk import regular_file

PathLike = str | os.PathLike[str]

GMT_BYTES = 2**26  # unpacked: twice the largest public collection
GMT_GENES = 2**23  # of all sets: a name takes far more memory than its characters
GZIP_MAGIC = b"\x1f\x8b"  # of gzip, whatever the name of the file
CONTROL_CHARACTERS = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
)  # in no text, but in junk


def read_gmt(path: PathLike | IO[Any]) -> dict[str, list[str]]:
    r"""Groups of names from a gene-set file: every set's name, and its genes in order.

    A line of a GMT file holds the name of a set, a description and the names of its
    genes, separated by tabs. Descriptions are left out, and so are empty fields and a
    gene's second mention in its set. The file is text of at most 64 MB and eight
    million genes: anything else is refused, and nothing in it is run.

    Parameters
    ----------
    path : path or file object
        A file, plain or gzipped, or an open one in text or binary mode.

    Returns
    -------
    dict of list of str
        For :func:`manykernels.group_kernels`.

    Examples
    --------
    >>> import io
    >>> read_gmt(io.StringIO("HYPOXIA\tshort of oxygen\tVEGFA\tLDHA\n"))
    {'HYPOXIA': ['VEGFA', 'LDHA']}
    """
    if not (hasattr(path, "read") or isinstance(path, str | os.PathLike)):
        raise TypeError(
            f"path must be a path or an open file, got {path!r}; pass the name of a "
            "gene-set file."
        )
    shown = "the file" if hasattr(path, "read") else str(path)
    text = _text(_content(path, shown), shown)
    sets: dict[str, list[str]] = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(io.StringIO(text, newline=None), 1):
        if not line.strip():
            continue
        name, genes = _read_line(line, f"line {number} of {shown}")
        if name in sets:
            raise ValueError(
                f"every set of {shown} must have a name of its own, got "
                f"{_short(name)} on lines {lines[name]} and {number}; rename one."
            )
        sets[name], lines[name] = genes, number
    if not sets:
        raise ValueError(
            f"{shown} must hold gene sets, one per line, got none; check that it is "
            "the right file."
        )
    return sets


def _read_line(line: str, where: str) -> tuple[str, list[str]]:
    """Name and genes of a set."""
    fields = [field.strip() for field in line.split("\t")]
    if len(fields) < 3 or not fields[0]:
        raise ValueError(
            f"{where} must be a name, a description and genes, separated by tabs, got "
            f"{_short(line.rstrip())}; correct the line or take it out."
        )
    # Genes are in many sets, their names in memory once.
    genes = dict.fromkeys(sys.intern(gene) for gene in fields[2:] if gene)
    if not genes:
        raise ValueError(
            f"{where} must name at least one gene, got none for the set "
            f"{_short(fields[0])}; take the line out."
        )
    return fields[0], list(genes)


def _content(path: PathLike | IO[Any], shown: str) -> bytes | str:
    """What a file holds, unpacked; never more than `GMT_BYTES`."""
    try:
        if hasattr(path, "read"):
            content = path.read(GMT_BYTES + 1)
        else:
            with regular_file(path) as stream:
                content = stream.read(GMT_BYTES + 1)
        # A small gzipped file may unpack to gigabytes: no more than the limit is read.
        if isinstance(content, bytes) and content.startswith(GZIP_MAGIC):
            content = gzip.GzipFile(fileobj=io.BytesIO(content)).read(GMT_BYTES + 1)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"expected a gene-set file {shown!r}, got none; check the path."
        ) from error
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise ValueError(
            f"expected a readable gene-set file, got {shown}, of which {error}; pass a "
            "whole file, plain or gzipped."
        ) from error
    if not isinstance(content, bytes | str):
        raise TypeError(
            f"a gene-set file must give bytes or text, got {type(content).__name__}; "
            "pass a path or an open file."
        )
    return content


def _text(content: bytes | str, shown: str) -> str:
    """Its characters, if it is text and not too long."""
    if len(content) > GMT_BYTES:
        raise ValueError(
            f"{shown} must hold at most {GMT_BYTES >> 20} MB of gene sets, got more; "
            "split it."
        )
    tab: Any = "\t" if isinstance(content, str) else b"\t"
    # Counting tabs bounds the memory for the names before they are split.
    if content.count(tab) > GMT_GENES:
        raise ValueError(
            f"{shown} must hold at most {GMT_GENES:,} genes in all sets together, got "
            "more; split it."
        )
    try:
        text = content if isinstance(content, str) else content.decode("utf-8-sig")
        junk = CONTROL_CHARACTERS.search(text)
        reason = junk and f"the character {junk[0]!r} at position {junk.start()}"
    except UnicodeDecodeError as error:
        text, reason = "", f"bytes that are no UTF-8 at position {error.start}"
    if reason:
        raise ValueError(
            f"{shown} must be text in UTF-8, got {reason}; check that it is a GMT file."
        )
    return text


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "...")
