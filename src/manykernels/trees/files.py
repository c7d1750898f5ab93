"""Save and load dependency parsers as plain data."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from manykernels.files import from_plain, to_plain, write_container
from manykernels.files.container import Arrays
from manykernels.mkl.persistence import _plain_params
from manykernels.trees.inputs import (
    COLUMNS,
    MOST_BITS,
    Layout,
    Reach,
    Vocabulary,
)
from manykernels.trees.learning import TreeEpoch
from manykernels.trees.templates import ArcTemplate, parse_template

LIMIT = 2**62  # a file says itself how large its tables are


def save_parser(parser: Any, path: str | os.PathLike[str]) -> None:
    """Write templates, vocabulary and the weights that are not zero."""
    arrays: Arrays = []
    params = _plain_params(parser)
    params.pop("templates", None)
    places = np.flatnonzero(parser._weights)
    given, layout = parser.templates, parser._layout
    content = {
        "estimator": type(parser).__name__,
        "params": to_plain(params, arrays),
        "choice": given if isinstance(given, str) else [str(t) for t in given],
        "templates": parser.templates_,
        "bits": [int(32 - shift) for shift in layout.compiled.shift],
        "vocabulary": [list(values) for values in layout.vocabulary.values],
        "reach_field": layout.reach.field,
        "reach": to_plain(layout.reach.longest, arrays),
        "places": to_plain(places.astype(np.int64), arrays),
        "weights": to_plain(parser._weights[places], arrays),
        "history": [list(line) for line in parser.history_],
        "selection": [list(line) for line in parser.selection_history_],
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
    templates = tuple(parse_template(text) for text in content["templates"])
    values = [[str(v) for v in column] for column in content["vocabulary"]]
    vocabulary = Vocabulary(tuple(tuple(column) for column in values))
    longest = from_plain(content["reach"], arrays)
    reach = Reach(int(content["reach_field"]), longest)
    bits = np.array(content["bits"], dtype=np.int64)
    places, weights = (from_plain(content[k], arrays) for k in ("places", "weights"))
    _require_sound(templates, vocabulary, reach, bits, places, weights)
    layout = Layout.of(templates, vocabulary, reach, LIMIT)
    starts = np.concatenate([[0], np.cumsum(2**bits)])
    compiled = layout.compiled._replace(
        start=starts, shift=(32 - bits).astype(np.uint32)
    )
    parser._layout = replace(layout, compiled=compiled)
    if len(places) and not 0 <= places.min() <= places.max() < starts[-1]:
        raise ValueError("weights lie outside of the tables")
    parser._weights = np.zeros(starts[-1], np.float32)
    parser._weights[places] = weights
    parser.history_ = [TreeEpoch(*line) for line in content["history"]]
    parser.selection_history_ = [TreeEpoch(*line) for line in content["selection"]]
    parser.n_iter_ = len(parser.history_)
    parser._state = None
    parser._set_templates()
    return parser


def _require_sound(
    templates: tuple[ArcTemplate, ...],
    vocabulary: Vocabulary,
    reach: Reach,
    bits: np.ndarray,
    places: np.ndarray,
    weights: np.ndarray,
) -> None:
    """Sizes and ranges must agree, or parsing would read outside of the tables."""
    field, longest = reach.field, reach.longest
    tags = vocabulary.sizes[field] if field in (2, 3) else -1
    checks = {
        "vocabulary": len(vocabulary.values) == len(COLUMNS),
        "templates": len(set(templates)) == len(templates) > 0,
        "table sizes": bits.shape == (len(templates),)
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
