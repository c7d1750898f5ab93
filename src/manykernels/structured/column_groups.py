"""Which kernels a labeler has: on labels, on pairs of labels, by groups of columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from manykernels.inputs.groups import kernel_templates
from manykernels.kernels import Kernel, Linear, as_kernels
from manykernels.kernels.columns import Columns, exact, matching

MOST_ATTRIBUTES = 200  # of tokens that get a kernel each by default


def label_kernels(
    kernels: Any, groups: Any, names: Sequence[str] | None
) -> list[Kernel]:
    """The kernels that score labels; `names` are the columns of tokens, if any."""
    specs = _described(kernels, names)
    if kernels is None and names is not None:
        specs = [Linear()] if groups else attribute_kernels(names)
    return specs if groups is None else grouped_kernels(groups, specs, names)


def edge_kernels(edges: Any, names: Sequence[str] | None) -> list[Kernel]:
    """The kernels that score pairs of labels."""
    if edges is None:
        return []
    if isinstance(edges, Mapping):
        return grouped_kernels(edges, [Linear()], names)
    return _described(edges, names)


def _described(kernels: Any, names: Sequence[str] | None) -> list[Kernel]:
    """Kernels from texts; a ";" in the name of an attribute cuts a text in two."""
    try:
        return as_kernels(kernels)
    except ValueError as error:
        if not any(";" in name for name in names or ()):
            raise
        said = str(error).removesuffix(".")
        raise ValueError(
            f"{said}; a ';' inside a name is written %3B in the text of a kernel."
        ) from error


def grouped_kernels(
    groups: Any, kernels: Sequence[Kernel], names: Sequence[str] | None
) -> list[Kernel]:
    """Kernels ``linear@group`` for every group of the columns of tokens.

    Parameters
    ----------
    groups : dict
        For every group a pattern with ``*`` or ``?``, a prefix, or a function that
        takes a column's name and says whether it belongs.
    kernels : sequence of Kernel
        What every group gets.
    names : sequence of str or None
        Of the columns; None where positions are rows of numbers.

    Examples
    --------
    >>> from manykernels.kernels import Linear
    >>> found = grouped_kernels({"word": "word="}, [Linear()], ["tag=N", "word=*"])
    >>> found[0].label, found[0].columns
    ('linear@word', 'word=*')
    """
    if names is None:
        raise ValueError(
            "groups are for token dicts, whose columns have names, got arrays; name "
            "columns in the kernels, as in 'linear@0-13'."
        )
    if not isinstance(groups, Mapping) or not groups:
        raise TypeError(
            "groups must be a dict from names to patterns, prefixes or functions, got "
            f"{groups!r}; write for instance {{'word': 'word=*'}}."
        )
    templates = kernel_templates(kernels)
    return [
        replace(kernel, columns=columns, name=f"{kernel.label}@{group}")
        for group, rule in groups.items()
        for columns in [_columns(group, rule, names)]
        for kernel in templates
    ]


def attribute_kernels(names: Sequence[str]) -> list[Kernel]:
    """A linear kernel for every attribute of tokens; one for all if there are too many.

    The attribute of a column is what stands before its "=".

    Examples
    --------
    >>> [(k.label, k.columns) for k in attribute_kernels(["bias", "word=a", "word=b"])]
    [('linear@bias', ('bias',)), ('linear@word', ('word=*',))]
    """
    patterns: dict[str, dict[str, None]] = {}
    for name in names:
        attribute, is_text, _ = name.partition("=")
        pattern = exact(attribute) + ("=*" if is_text else "")
        patterns.setdefault(attribute, {})[pattern] = None
    if not 1 < len(patterns) <= MOST_ATTRIBUTES:
        return [Linear()]
    return [
        Linear(columns=tuple(chosen), name=f"linear@{attribute}")
        for attribute, chosen in patterns.items()
    ]


def _columns(group: str, rule: str | Callable[[str], Any], names: Any) -> Columns:
    if callable(rule):
        chosen = [place for place, name in enumerate(names) if rule(name)]
    elif isinstance(rule, str):
        rule = rule if any(c in rule for c in "*?") else exact(rule) + "*"
        chosen = matching(rule, names)
    else:
        raise TypeError(
            f"group {group!r} must be a pattern, a prefix or a function, got {rule!r}; "
            "write for instance 'word=*'."
        )
    if not chosen:
        raise ValueError(
            f"group {group!r} must hold a column, got none for {rule!r}; columns are "
            f"named as {', '.join(map(repr, names[:3]))}."
        )
    return tuple(chosen) if callable(rule) else rule
