"""Finds figures on a page that look measured and do not say where they come from.

Measured is what has a decimal point or a unit (seconds, per cent, times, points,
gigabytes), and a cell of a table that is a number. Numbers that somebody chose are told
by what is around them: p = 1.1, a gap of 0.01, Python 3.11. Where that is not enough,
as in definitions, formulas and quotations from papers, <!-- given --> behind a number,
or on a line of its own before a paragraph or table, says that nothing was measured.
"""

from __future__ import annotations

import re

NUMBER = r"-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?"
UNIT = (
    r"(?:s|ms|seconds?|minutes?|hours?|%|per cent|times|points?|[kKMG]B|gigabytes"
    r"|megabytes)(?!\w)"
)
# What stands before a number that was chosen, not measured.
CHOSEN = (
    r"(?:\b(?:p|C|r|q|d|D|n|N|F|S|tol|gamma|eta0|alpha|epsilon|rho(?:_\d)?)"
    r"(?: =| <| >| ≤| ≥|,| from| near| above| up to| to| of)? "
    r"|\bgaps? (?:of|below|is) |\bwithin |\bPython |\bMKLpy |\bCorollary |\bdefault )"
)
BARE = NUMBER + r"(?![\d.]*\d| ?" + UNIT + r")"  # without a unit
SKIPPED = [
    re.compile(pattern, re.MULTILINE | re.DOTALL)
    for pattern in (
        r"^```.*?^```",  # code
        r"<!-- (?:table: [^\n]+?|legend) -->\n.*?<!-- end -->",
        r"^<!-- given -->\n.*?(?:\n(?=\n)|\Z)",  # a block
        r"(?:\?|-|" + NUMBER + r")†?<!-- = .+? -->",
        NUMBER + r"(?: ?" + UNIT + r")?<!-- given -->",
        r"<!--.*?-->",
        r"`[^`]*`",
        r"\]\([^)]*\)",
        CHOSEN + BARE + r"(?:(?:,|,? and|,? or| to) " + BARE + r")*",
        r"\{[\d., ]+\}",  # a set to choose from
    )
]
LOOKS_MEASURED = re.compile(
    r"(?<![\w.^/-])(?:"
    + NUMBER
    + r"(?=[ -]?"
    + UNIT
    + r")|-?\d+(?:,\d{3})*\.\d+(?:e-?\d+)?)"
)
CELL = re.compile(r"(?<=\| )" + NUMBER + r"(?= \|)")


def unmarked(text: str) -> list[str]:
    """Each figure without a source, with its line."""
    for pattern in SKIPPED:
        text = pattern.sub(lambda found: "\n" * found[0].count("\n") or "…", text)
    return [
        f"line {number}: {match[0]}"
        for number, line in enumerate(text.splitlines(), 1)
        for pattern in (LOOKS_MEASURED, CELL)
        for match in pattern.finditer(line.removeprefix("|"))
    ]
