"""Figures in running text: `14<!-- = digits_speed.ratio_to_svc.fit.median -->`.

The comment says where the figure before it comes from: a result file, the way through
it, and arithmetic. `.key` and `["key"]` go into a dict, or into every element of a
list; `(field=value)` keeps the elements of a list with that value; then there are
+ - * / and the functions below. The figure keeps the number of its significant
digits, two if it is still a "?", unless a format follows: `... : .1f -->`. What has no
value, because it was never reached, is a "-".
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Load = Callable[[str], dict[str, Any]]
DAGGER = "†"
MARK = re.compile(
    r"(?P<shown>\?|-(?!\d)|-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?)†?"
    r"(?P<comment><!-- = (?P<source>.+?)(?: : (?P<format>\S+))? -->)",
    re.DOTALL,
)
FUNCTIONS: Mapping[str, Callable[..., float]] = {
    "mean": np.mean,
    "median": np.median,
    "min": np.min,
    "max": np.max,
    "sum": np.sum,
    "count": np.size,
}
OPERATIONS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def shown(mark: re.Match[str], load: Load) -> str:
    """The figure of a mark, from the results."""
    found = value(mark["source"], load)
    if found is None or not np.isfinite(found):
        return "-"
    if mark["format"]:
        return format(found, mark["format"])
    return rounded(found, significant(mark["shown"]))


def value(source: str, load: Load) -> float | None:
    """What an expression over results comes to."""
    try:
        found = _value(ast.parse(" ".join(source.split()), mode="eval").body, load)
    except (KeyError, IndexError, SyntaxError, TypeError) as error:
        raise ValueError(
            f"expected the way to a figure, got {source!r}, which leads nowhere "
            f"({type(error).__name__}: {error}); see benchmarks/figures.py."
        ) from error
    if found is not None and np.ndim(found):
        raise ValueError(
            f"expected one figure, got {len(found)} from {source!r}; choose one, or "
            f"take one of {', '.join(FUNCTIONS)}."
        )
    return found


def _value(node: ast.expr, load: Load) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return load(node.id)
    if isinstance(node, ast.Attribute):
        return _inside(_value(node.value, load), node.attr)
    if isinstance(node, ast.Subscript):
        return _inside(_value(node.value, load), _value(node.slice, load))
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
        left, right = _value(node.left, load), _value(node.right, load)
        return None if None in (left, right) else OPERATIONS[type(node.op)](left, right)
    if isinstance(node, ast.Call) and node.keywords:
        wanted = {one.arg: _value(one.value, load) for one in node.keywords}
        return _kept(_value(node.func, load), wanted)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        values = [_value(one, load) for one in node.args]
        return float(FUNCTIONS[node.func.id](np.concatenate([*map(np.ravel, values)])))
    raise SyntaxError(f"{ast.unparse(node)} is not understood")


def _inside(whole: Any, key: Any) -> Any:
    """An element, or that element of all elements of a list; of nothing, nothing."""
    if whole is None:
        return None
    if isinstance(whole, list) and isinstance(key, str):
        return [_inside(one, key) for one in whole]
    return whole[key] if isinstance(whole, list) else whole[str(key)]


def _kept(lines: list[Any], wanted: Mapping[Any, Any]) -> Any:
    """Elements with all these values; the element itself if it is the only one."""
    while isinstance(lines[0], list):  # lists of lists are one list
        lines = [one for part in lines for one in part]
    kept = [one for one in lines if all(one[key] == wanted[key] for key in wanted)]
    if not kept:
        raise KeyError(f"no element has {wanted}")
    return kept[0] if len(kept) == 1 else kept


def significant(text: str) -> int:
    """How many digits count in a figure as it is written; two for a "?" or a "-"."""
    digits = text.partition("e")[0].replace(".", "").replace(",", "").lstrip("-0")
    return len(digits) if digits.isdigit() else 2


def rounded(number: float, digits: int) -> str:
    """The number with so many significant digits; whole numbers keep all of theirs."""
    if number and not 1e-4 <= abs(number) < 1e9:
        return f"{number:.{digits - 1}e}".replace("e-0", "e-").replace("e+0", "e")
    exponent = int(f"{number:.{digits - 1}e}".partition("e")[2])
    return f"{number:,.{max(digits - 1 - exponent, 0)}f}"
