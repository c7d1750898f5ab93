"""Save and load dependency parsers as plain data."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from manykernels.estimators.arc_templates import parse_template
from manykernels.estimators.dependency_parser_inputs import (
    COLUMNS,
    MOST_BITS,
    Reach,
    Vocabulary,
    compile_templates,
)
from manykernels.estimators.persistence import _plain_params
from manykernels.io import from_plain, to_plain, write_container
from manykernels.io.container import Arrays
from manykernels.solvers.tree_learning import TreeEpoch

LIMIT = 2**62  # a file says itself how large its tables are


def save_parser(parser: Any, path: str | os.PathLike[str]) -> None:
    """Write templates, vocabulary and the weights that are not zero."""
    arrays: Arrays = []
    params = _plain_params(parser)
    params.pop("templates", None)
    places = np.flatnonzero(parser._weights)
    given = parser.templates
    content = {
        "estimator": type(parser).__name__,
        "params": to_plain(params, arrays),
        "choice": given if isinstance(given, str) else [str(t) for t in given],
        "templates": parser.templates_,
        "bits": [int(32 - shift) for shift in parser._compiled.shift],
        "vocabulary": [list(values) for values in parser._vocabulary.values],
        "reach_field": parser._reach.field,
        "reach": to_plain(parser._reach.longest, arrays),
        "places": to_plain(places.astype(np.int64), arrays),
        "weights": to_plain(parser._weights[places], arrays),
        "history": [list(line) for line in parser.history_],
    }
    write_container(path, content, arrays)


def restore_parser(
    cls: type,
    content: Any,
    arrays: Arrays,
    functions: Mapping[str, Callable[..., Any]] | None,
) -> Any:
    """The parser in a file's content, which is checked."""
    parser: Any = cls(content["choice"], **from_plain(content["params"], arrays))
    parser._templates = tuple(parse_template(text) for text in content["templates"])
    values = [[str(v) for v in column] for column in content["vocabulary"]]
    parser._vocabulary = Vocabulary(tuple(tuple(column) for column in values))
    longest = from_plain(content["reach"], arrays)
    parser._reach = Reach(int(content["reach_field"]), longest)
    bits = np.array(content["bits"], dtype=np.int64)
    places, weights = (from_plain(content[k], arrays) for k in ("places", "weights"))
    _require_sound(parser, bits, places, weights)
    sizes = parser._vocabulary.sizes
    compiled = compile_templates(parser._templates, sizes, LIMIT, parser._reach)
    starts = np.concatenate([[0], np.cumsum(2**bits)])
    parser._compiled = compiled._replace(
        start=starts, shift=(32 - bits).astype(np.uint32)
    )
    if len(places) and not 0 <= places.min() <= places.max() < starts[-1]:
        raise ValueError("weights lie outside of the tables")
    parser._weights = np.zeros(starts[-1], np.float32)
    parser._weights[places] = weights
    parser.history_ = [TreeEpoch(*line) for line in content["history"]]
    parser.n_iter_ = len(parser.history_)
    parser._state = None
    parser._set_templates()
    return parser


def _require_sound(
    parser: Any, bits: np.ndarray, places: np.ndarray, weights: np.ndarray
) -> None:
    """Sizes and ranges must agree, or parsing would read outside of the tables."""
    field, longest = parser._reach.field, parser._reach.longest
    tags = parser._vocabulary.sizes[field] if field in (2, 3) else -1
    checks = {
        "vocabulary": len(parser._vocabulary.values) == len(COLUMNS),
        "templates": len(set(parser._templates)) == len(parser._templates) > 0,
        "table sizes": bits.shape == (len(parser._templates),)
        and bool(((bits >= 1) & (bits <= MOST_BITS)).all()),
        "places": places.dtype == np.int64 and places.ndim == 1,
        "weights": weights.dtype == np.float32
        and weights.shape == places.shape
        and bool(np.isfinite(weights).all()),
        "reach": longest.dtype == np.int32 and longest.shape == (tags, tags, 2),
    }
    wrong = [name for name, right in checks.items() if not right]
    if wrong:
        raise ValueError(f"parts disagree: {', '.join(wrong)}")
