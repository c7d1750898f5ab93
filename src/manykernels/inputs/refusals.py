"""What scikit-learn and NumPy say of bad data, as one sentence with advice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

# How a message begins, what is said in its place, and what to do. The first words stay
# where tools look for them.
KNOWN = (
    (
        r"Expected 2D array, got (\w+) array",
        "Expected 2D array, got {0} array instead",
        "Reshape your data to rows and columns, with X.reshape(-1, 1) for one column",
    ),
    (r"Found array with dim \d+, .*", "{all}", "pass rows and columns"),
    (r"Found array with \d+ sample\(s\).*", "{all}", "pass more rows"),
    (r"Found array with 0 feature\(s\).*", "{all}", "pass at least one column"),
    (
        r"X has \d+ features, but \w+ is expecting \d+ features as input",
        "{all}",
        "pass the columns of the training data in their order",
    ),
    (
        r"Found input variables with inconsistent numbers of samples.*",
        "{all}",
        "pass one entry of y, and of sample_weight, for every row of X",
    ),
    (
        r"Unknown label type: \S+?(?=\. |$)",
        "y must hold classes, which this is not: {all}",
        "pass whole numbers, booleans or texts, or use a regressor",
    ),
    (
        r".*inhomogeneous shape.*|.*array element with a sequence.*",
        "expected rows of equal length, got a list whose rows or entries differ",
        "make them equal",
    ),
    (
        r".*argument must be a string or a (?:real )?number, not '(\w+)'",
        "X and y must be arrays, tables or lists of numbers, got an argument must be a "
        "string or a number, not {0}",
        "pass an array, a data frame or a list of rows",
    ),
    (
        r"could not convert string to float: (.*)",
        "X, y and weights must hold numbers, got the text {0}",
        "turn it into numbers first",
    ),
    (
        r"[Ss]parse data was passed.*",
        "X must be dense here, but sparse data was passed",
        "use '.toarray()' to convert it",
    ),
    (
        r"Complex data not supported.*",
        "Complex data not supported",
        "pass real numbers",
    ),
    (r"y should be a 1d array.*", "{all}", "pass one label or number per row"),
    (
        r"Input (?:y|sample_weight) contains (?:NaN|infinity)",
        "{all}",
        "drop such rows, or give them values",
    ),
)


@contextmanager
def plain_refusals() -> Iterator[None]:
    """Errors of other libraries, told as ours are.

    Examples
    --------
    >>> with plain_refusals():
    ...     raise ValueError("Found array with 0 sample(s) (shape=(0, 4))")
    Traceback (most recent call last):
    ValueError: Found array with 0 sample(s) (shape=(0, 4)); pass more rows.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        message = str(error)
        # Names that changed are listed line by line, which says more than a sentence.
        told = message.startswith("The feature names") or re.search(
            r"; .*[.?]$", message
        )
        if told:
            raise
        raise type(error)(_sentence(" ".join(message.split()))) from error


def _sentence(message: str) -> str:
    for pattern, text, advice in KNOWN:
        if found := re.match(pattern, message):
            said = text.format(*found.groups(), all=found[0].split(". ")[0])
            return f"{said.rstrip('.')}; {advice}."
    first = re.split(r"\. |: ?array=", message)[0].rstrip(".")
    return f"{first}; check X, y and weights."
