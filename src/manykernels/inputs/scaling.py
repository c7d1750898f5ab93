"""Scaling that belongs to the model: fitted on training rows, kept as plain numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from manykernels.base.quoted import quoted
from manykernels.base.stored import Floats, storable


@storable(center=Floats("columns"), factor=Floats("columns"))
@dataclass
class Shift:
    """(x - center) * factor; a factor of zero leaves a column out.

    Sparse tables are not centered.
    """

    center: np.ndarray
    factor: np.ndarray

    def apply(self, table: Any) -> Any:
        if sp.issparse(table):
            return _times(table, self.factor)
        return (table - self.center) * self.factor

    @property
    def n_columns(self) -> int:
        return len(self.factor)


@storable(values=Floats("columns"))
@dataclass
class Fill:
    """A value for every column, in place of NaN."""

    values: np.ndarray

    def apply(self, table: Any) -> Any:
        if sp.issparse(table):
            return table
        return np.where(np.isnan(table), self.values, table)

    @property
    def n_columns(self) -> int:
        return len(self.values)


@storable(idf=Floats("columns", low=0.0))
@dataclass
class InverseFrequency:
    """Counts times ln((1 + n) / (1 + rows that have the word)) + 1."""

    idf: np.ndarray

    def apply(self, table: Any) -> Any:
        return _times(table, self.idf) if sp.issparse(table) else table * self.idf

    @property
    def n_columns(self) -> int:
        return len(self.idf)


@storable
@dataclass
class LogOnePlus:
    """log(1 + x), for counts."""

    n_columns = None

    def apply(self, table: Any) -> Any:
        _require_nonnegative(table, "log1p", "values that are not negative")
        return table.log1p() if sp.issparse(table) else np.log1p(table)


@storable
@dataclass
class UnitRows:
    """Rows of unit length; a row of zeros stays."""

    n_columns = None

    def apply(self, table: Any) -> Any:
        if sp.issparse(table):
            squares = np.asarray(table.multiply(table).sum(axis=1)).ravel()
        else:
            squares = np.square(table).sum(axis=1)
        # A row of zeros has no direction: it keeps its length.
        lengths = np.sqrt(np.where(squares > 0.0, squares, 1.0))
        if sp.issparse(table):
            return sp.csr_array(sp.diags_array(1.0 / lengths) @ table)
        return table / lengths[:, None]


@dataclass
class ForeignStep:
    """A fitted transformer of another library, which no file can hold."""

    transformer: Any
    n_columns = None

    def apply(self, table: Any) -> Any:
        out = self.transformer.transform(table)
        return sp.csr_array(out) if sp.issparse(out) else np.asarray(out, dtype=float)


Step: TypeAlias = Shift | Fill | InverseFrequency | LogOnePlus | UnitRows | ForeignStep
SAVED_STEPS = (
    Shift,
    Fill,
    InverseFrequency,
    LogOnePlus,
    UnitRows,
)  # that files may hold


# --- steps by name, fitted on rows that count as some copies of themselves ------------


def _standard(table: Any, copies: np.ndarray) -> Step:
    """Mean 0 and variance 1 in every column."""
    # A row of weight k counts as k copies of itself in means and variances.
    shares = copies / copies.sum()
    # Squares of the largest and smallest numbers overflow: scale them to one before.
    largest = abs(table).max(axis=0)
    size = np.ravel(largest.toarray() if sp.issparse(largest) else largest)
    unit = np.where(size > 0.0, size, 1.0)
    table = _times(table, 1.0 / unit) if sp.issparse(table) else table / unit
    mean = np.asarray(shares @ table)
    if sp.issparse(table):
        square = np.asarray(shares @ table.multiply(table))
        variance = np.maximum(square - mean**2, 0.0)
    else:
        variance = np.asarray(shares @ np.square(table - mean))
    return Shift(unit * mean, _inverse(np.sqrt(variance), np.abs(mean)) / unit)


def _robust(table: Any, copies: np.ndarray) -> Step:
    """Median 0, and 1 between the quartiles; the deviation where these are equal."""
    dense = _dense(table, "robust")
    low, middle, high = (_quantile(dense, copies, q) for q in (0.25, 0.5, 0.75))
    # Where more than half of the values are equal the quartiles coincide: the
    # deviation then sets the scale.
    spread = high - low
    standard: Any = _standard(dense, copies)
    factor = np.where(spread > 0.0, _inverse(spread, np.abs(middle)), standard.factor)
    return Shift(middle, factor)


def _minmax(table: Any, copies: np.ndarray) -> Step:
    """From 0 to 1."""
    # The range of rows without weight does not count.
    dense = _dense(table, "minmax")[copies > 0.0]
    low, high = dense.min(axis=0), dense.max(axis=0)
    return Shift(low, _inverse(high - low, np.abs(high)))


def _impute(table: Any, copies: np.ndarray) -> Step:
    """The mean of every column in place of NaN."""
    if sp.issparse(table):
        return Fill(np.zeros(table.shape[1]))
    counted = ~np.isnan(table) * copies[:, None]
    total = counted.sum(axis=0)
    sums = (np.nan_to_num(table) * counted).sum(axis=0)
    return Fill(np.divide(sums, total, out=np.zeros_like(sums), where=total > 0.0))


def _frequencies(table: Any, copies: np.ndarray) -> Step:
    _require_nonnegative(table, "tfidf", "counts, which are not negative")
    rows_with_word = np.asarray(copies @ (table != 0)).ravel()
    # scikit-learn's smoothed inverse document frequency, as if one more document
    # had every word.
    idf = np.log((1.0 + copies.sum()) / (1.0 + rows_with_word)) + 1.0
    return InverseFrequency(idf)


def _log(table: Any, copies: np.ndarray) -> Step:
    return LogOnePlus()


def _unit(table: Any, copies: np.ndarray) -> Step:
    return UnitRows()


StepFitter: TypeAlias = Callable[[Any, np.ndarray], Step]
SCALE_WORDS: Mapping[str, tuple[StepFitter, ...]] = {
    "none": (),
    "standard": (_standard,),
    "robust": (_robust,),
    "minmax": (_minmax,),
    "impute": (_impute,),
    "log1p": (_log,),
    "tfidf": (_frequencies, _unit),
    "unit": (_unit,),
}


def read_scale(scale: Any) -> Any:
    """A list of words, a transformer, or a dict of these by view; None for "auto".

    Examples
    --------
    >>> read_scale("impute+standard")
    ['impute', 'standard']
    >>> read_scale("auto") is None
    True
    """
    if isinstance(scale, Mapping):
        return {name: read_scale(one) for name, one in scale.items()}
    if isinstance(scale, str) and scale == "auto":
        return None
    if isinstance(scale, str):
        words = list(map(str.strip, scale.split("+")))
        if SCALE_WORDS.keys() >= set(words):
            return words
    transforms = hasattr(scale, "fit") and hasattr(scale, "transform")
    if transforms and not isinstance(scale, type):
        return scale
    raise ValueError(
        f"scale must be 'auto', some of {', '.join(map(repr, SCALE_WORDS))} joined by "
        f"'+', a transformer, or a dict of these by view, got {quoted(scale)}; choose "
        "one of these."
    )


def fit_steps(wanted: Any, table: Any, copies: np.ndarray) -> tuple[list[Step], Any]:
    """The steps that a scale stands for, and the table that they leave.

    Every step is fitted on what the last one leaves, on rows with copies only.

    Examples
    --------
    >>> _, table = fit_steps(["minmax"], np.array([[1.0], [3.0], [5.0]]), [1, 1, 0])
    >>> table.ravel().tolist()
    [0.0, 1.0, 2.0]
    """
    wanted = _automatic(table) if wanted is None else wanted
    copies = np.asarray(copies)
    kept = copies > 0.0
    if not isinstance(wanted, list | tuple):
        steps = _from_transformer(wanted, table[kept])
        return steps, apply_steps(steps, table)
    steps = []
    for word in wanted:
        for fit in SCALE_WORDS[word]:
            # Rows without copies may hold anything: no step looks at them.
            rows = table if kept.all() else table[kept]
            steps.append(fit(rows, copies[kept]))
            table = steps[-1].apply(table)
    return steps, table


def _automatic(table: Any) -> tuple[str, ...]:
    """The scale "auto" of a view: dense numbers, counts, other sparse numbers."""
    if not sp.issparse(table):
        return ("standard",)
    return ("log1p", "unit") if table.data.min(initial=0.0) >= 0.0 else ("unit",)


def apply_steps(steps: list[Step], table: Any) -> Any:
    """All of them, one after the other."""
    for step in steps:
        table = step.apply(table)
    return table


# --- transformers of scikit-learn -----------------------------------------------------


def _from_transformer(transformer: Any, rows: Any) -> list[Step]:
    """A transformer fitted on some rows, as plain numbers where its class allows."""
    fitted = clone(transformer).fit(rows)
    parts = [step for _, step in fitted.steps] if hasattr(fitted, "steps") else [fitted]
    steps: list[Step] = []
    for part in parts:
        if part not in (None, "passthrough"):
            steps += _as_plain(part)
    return steps


def _as_plain(fitted: Any) -> list[Step]:
    """Steps with the same numbers; the transformer itself where there are none."""
    # The numbers of these classes are public attributes. Subclasses of other
    # libraries may transform differently, hence the check of the module.
    name = type(fitted).__name__
    known = type(fitted).__module__.startswith("sklearn.")
    if known and name in ("StandardScaler", "RobustScaler", "MaxAbsScaler"):
        center = getattr(fitted, "mean_", getattr(fitted, "center_", None))
        scale = getattr(fitted, "scale_", None)
        n = fitted.n_features_in_
        used = getattr(fitted, "with_mean", getattr(fitted, "with_centering", False))
        center = np.array(center) if used and center is not None else np.zeros(n)
        return [Shift(center, np.ones(n) if scale is None else 1.0 / np.array(scale))]
    if known and name == "MinMaxScaler" and not fitted.clip:
        scale = np.array(fitted.scale_)
        return [Shift(-np.array(fitted.min_) / scale, scale)]
    if known and name == "SimpleImputer" and not fitted.add_indicator:
        values = np.array(fitted.statistics_)
        nan = isinstance(fitted.missing_values, float)
        if nan and values.dtype.kind == "f" and np.isfinite(values).all():
            return [Fill(values)]
    if known and name == "TfidfTransformer" and fitted.norm == "l2":
        if fitted.use_idf and not fitted.sublinear_tf:
            return [InverseFrequency(np.array(fitted.idf_)), UnitRows()]
    if known and name == "Normalizer" and fitted.norm == "l2":
        return [UnitRows()]
    if known and name == "FunctionTransformer" and fitted.func is np.log1p:
        return [LogOnePlus()]
    return [ForeignStep(fitted)]


def require_plain(steps: list[Step], view: str) -> None:
    """Raise where a step is an object that a file cannot hold."""
    for step in steps:
        if isinstance(step, ForeignStep):
            raise TypeError(
                "expected a scale that can be saved as data, got "
                f"{type(step.transformer).__name__} for view {view!r}; choose words "
                "such as 'standard', or a StandardScaler, RobustScaler, MinMaxScaler, "
                "MaxAbsScaler, SimpleImputer, TfidfTransformer or Normalizer."
            )


# --- helpers --------------------------------------------------------------------------


def _require_nonnegative(table: Any, word: str, wanted: str) -> None:
    values = table.data if sp.issparse(table) else table
    if values.size and not np.nanmin(values) >= 0.0:
        raise ValueError(
            f"scale={word!r} needs {wanted}, got "
            f"{np.nanmin(values):.4g}; choose another scale for this view."
        )


def _times(table: Any, factor: np.ndarray) -> Any:
    """Columns of a sparse table times their factors."""
    return sp.csr_array(table @ sp.diags_array(factor))


def _inverse(spread: np.ndarray, size: np.ndarray) -> np.ndarray:
    """1 / spread; 0 for a column that is constant up to rounding."""
    # A factor of zero leaves the column out: it would be rounding, enlarged.
    real = spread > 1e-14 * size  # some units of the last place of float64
    return np.divide(1.0, spread, out=np.zeros_like(spread), where=real)


def _dense(table: Any, word: str) -> np.ndarray:
    if sp.issparse(table):
        raise TypeError(
            f"scale={word!r} needs a dense table, got a sparse one; choose 'standard', "
            "'tfidf' or 'log1p'."
        )
    return np.asarray(table)


def _quantile(table: np.ndarray, copies: np.ndarray, q: float) -> np.ndarray:
    """The smallest value of a column that a share q of the rows does not exceed."""
    # The k-th smallest of the copies, without making the copies.
    order = np.argsort(table, axis=0, kind="stable")
    ends = np.cumsum(copies[order], axis=0) / copies.sum()
    first = np.argmax(ends >= q - 1e-12, axis=0)  # sums of copies are rounded
    every = np.arange(table.shape[1])
    return np.asarray(table[order[first, every], every])
