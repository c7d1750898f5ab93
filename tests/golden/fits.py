"""Some sixty small fits that use every estimator, storage, loss and kind of input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.gaussian_process.kernels import RBF

import manykernels as mk
from manykernels import compare
from manykernels.structured.conllu import Sentence

VIEW_KERNELS = ["rbf@0-2", "rbf@3-5", "linear"]


def table(n_rows: int = 90, n_columns: int = 6, seed: int = 0) -> np.ndarray:
    """Columns of different units, so that scaling matters."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_rows, n_columns)) * np.linspace(0.5, 3.0, n_columns)


def labels(X: np.ndarray, n_classes: int = 3) -> np.ndarray:
    """Classes by a noisy linear score of the first columns."""
    noise = np.random.default_rng(1).normal(size=len(X))
    scores = X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.5 * noise
    cuts = np.quantile(scores, np.linspace(0, 1, n_classes + 1)[1:-1])
    return np.searchsorted(cuts, scores)


def values(X: np.ndarray, n_targets: int = 1) -> np.ndarray:
    """Targets that depend on the first columns, with noise."""
    noise = np.random.default_rng(2).normal(size=(len(X), n_targets))
    y = X[:, :n_targets] * X[:, 1:2] + np.sin(X[:, 2:3]) + 0.3 * noise
    return y[:, 0] if n_targets == 1 else y


def times(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Times to events, a third of them censored."""
    rng = np.random.default_rng(3)
    seen = rng.random(len(X)) > 0.33
    return np.exp(0.5 * X[:, 0] + 0.2 * rng.normal(size=len(X))), seen


def gram(X: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
    """Three kernels of every row with the first sixty."""
    rows = X if rows is None else rows
    stack = [RBF(length)(rows, X) for length in (0.5, 2.0)]
    return np.stack([*stack, rows @ X.T], axis=-1)


def views(X: np.ndarray, gaps: bool = False) -> dict[str, np.ndarray]:
    """Two views of the columns; with gaps some rows lack the second."""
    second = X[:, 3:].copy()
    if gaps:
        second[::7] = np.nan
    return {"first": X[:, :3], "second": second}


Fit = tuple[Any, Any, Any, Any, dict[str, Any]]  # model, X, y, new X, options of fit


def classifier_fits() -> Iterator[tuple[str, Fit]]:
    """MKLClassifier over norms, losses, solvers, storages, inputs and weights."""
    X = table()
    new = table(40, seed=9)
    y = labels(X)

    def fit(X=X, y=y, new=new, kernels=VIEW_KERNELS, options=None, **parameters):
        parameters = {"C": 3.0, "random_state": 0, **parameters}
        return mk.MKLClassifier(kernels, **parameters), X, y, new, options or {}

    for p in (1.0, 1.1, 1.5, 2.0):
        yield f"classifier p={p}", fit(p=p)
    for loss in ("log", "squared_hinge", "smoothed_hinge"):
        yield f"classifier loss={loss}", fit(loss=loss)
        yield f"classifier loss={loss} two classes", fit(y=labels(X, 2), loss=loss)
    yield "classifier two classes", fit(y=labels(X, 2))
    yield "classifier C=100", fit(C=100.0)
    yield "classifier solver=obscure", fit(solver="obscure")
    yield "classifier solver=svrg", fit(solver="svrg", loss="log", tol=0.05)
    yield "classifier no bound", fit(p=1.0, solver="dual_ascent")
    for storage in ("gram", "memmap", "on_demand", "float64", "gram:float16"):
        yield f"classifier storage={storage}", fit(storage=storage)
    linear = ["linear@0-2", "linear@3-5"]
    for loss in ("hinge", "log"):
        features = fit(kernels=linear, storage="features", loss=loss)
        yield f"classifier features {loss}", features
    for scale in ("none", "standard", "log1p+robust"):
        positive = np.abs(X)
        yield f"classifier scale={scale}", fit(positive, new=np.abs(new), scale=scale)
    yield "classifier default kernels", fit(kernels=None)
    yield "classifier nystroem", fit(kernels=["rbf", "linear"], approximate="nystroem")
    yield "classifier nugget", fit(nugget="shared")
    weight = np.linspace(0.0, 2.0, len(X))
    yield "classifier row weights", fit(options={"sample_weight": weight})
    yield "classifier balanced", fit(y=labels(X, 3) // 2, class_weight="balanced")
    counts = sp.csr_array(np.maximum(np.round(X - 1.0), 0.0))
    new_counts = sp.csr_array(np.maximum(np.round(new - 1.0), 0.0))
    yield "classifier sparse", fit(counts, new=new_counts, kernels=["linear"])
    yield "classifier views", fit(views(X), new=views(new), kernels=None)
    gaps = fit(views(X, gaps=True), new=views(new, gaps=True), kernels=None)
    yield "classifier missing views", gaps
    given = fit(gram(X), new=gram(X, new), kernels="precomputed")
    yield "classifier given kernels", given
    names = ["a1", "a2", "a3", "b1", "b2", "b3"]
    frame, new_frame = as_frame(X, names), as_frame(new, names)
    yield "classifier frame", fit(frame, new=new_frame, kernels=["rbf@a*", "rbf@b*"])


def as_frame(X: np.ndarray, names: list[str]) -> Any:
    """A data frame, where pandas is installed."""
    import pandas as pd

    return pd.DataFrame(X, columns=names)


def other_fits() -> Iterator[tuple[str, Fit]]:
    """Regression, survival, searches, products and structured outputs."""
    X, new = table(), table(40, seed=9)
    y, kernels = values(X), VIEW_KERNELS
    for loss in ("squared", "epsilon_insensitive", "huber"):
        for p in (1.1, 2.0):
            model = mk.MKLRegressor(kernels, p=p, loss=loss, C=3.0, random_state=0)
            yield f"regressor {loss} p={p}", (model, X, y, new, {})
    three = values(X, 3)
    for each in (False, True):
        model = mk.MKLRegressor(kernels, per_target_weights=each, random_state=0)
        yield f"regressor targets per_target_weights={each}", (model, X, three, new, {})
    model = mk.MKLRegressor(nugget="shared", random_state=0)
    yield "regressor views nugget", (model, views(X), y, views(new), {})
    for p in (1.1, 2.0):
        model = mk.MKLSurvival(kernels, p=p, random_state=0)
        yield f"survival p={p}", (model, X, times(X), new, {})
    search = mk.MKLClassifierCV(kernels, ps=(1.1, 2.0), Cs=3, cv=3, random_state=0)
    yield "classifier search", (search, X, labels(X), new, {})
    search = mk.MKLRegressorCV(kernels, ps=(1.1, 2.0), Cs=3, cv=3, random_state=0)
    yield "regressor search", (search, X, y, new, {})
    yield from product_fits()
    yield from structured_fits()
    for method in (
        compare.AveragedKernelClassifier,
        compare.EasyMKLClassifier,
        compare.AlignmentClassifier,
    ):
        yield (
            f"compare {method.__name__}",
            (method(kernels, random_state=0), X, labels(X), new, {}),
        )
    for p, solver in (
        (1.0, compare.SimpleMKL()),
        (1.5, compare.SMOMKL()),
        (1.5, compare.UFO()),
    ):
        model = mk.MKLClassifier(kernels, p=p, solver=solver, random_state=0)
        name = f"compare {type(solver).__name__}"
        yield name, (model, X, labels(X, 2), new, {})


def product_fits() -> Iterator[tuple[str, Fit]]:
    """Interactions for numbers and two classes."""
    X, new = table(120, 8), table(40, 8, seed=9)
    y = X[:, 0] * X[:, 1] + X[:, 2]
    for p in (1.0, 1.5):
        model = mk.PolynomialMKLRegressor(2, p=p, C=10.0, random_state=0)
        yield f"product regressor p={p}", (model, X, y, new, {})
    model = mk.PolynomialMKLRegressor(2, random_state=0)
    yield "product regressor chosen C", (model, X, y, new, {})
    model = mk.PolynomialMKLClassifier(2, C=10.0, random_state=0)
    yield "product classifier", (model, X, (y > 0).astype(int), new, {})


def structured_fits() -> Iterator[tuple[str, Fit]]:
    """Sequences and trees."""
    rng = np.random.default_rng(4)
    X = [rng.normal(size=(length, 4)) for length in (4, 6, 3, 5, 7, 4)]
    y = [(x[:, 0] > 0).astype(int) + (x[:, 1] > 0) for x in X]
    for loss in ("hinge", "crf"):
        model = mk.SequenceLabeler(loss=loss, max_iter=5, random_state=0)
        yield f"labeler {loss}", (model, X, y, X, {})
    model = mk.SequenceLabeler(["rbf@0-1", "linear"], max_iter=5, random_state=0)
    yield "labeler kernels", (model, X, y, X, {})
    trees = [sentence(rng) for _ in range(30)]
    templates = ["h.upos m.upos distance", "h.form m.form direction"]
    model = mk.DependencyParser(templates, n_epochs=3, random_state=0)
    yield "parser", (model, trees, None, trees, {})


def sentence(rng: np.random.Generator) -> Sentence:
    """Some adjectives, a noun, a verb, and sometimes a full stop."""
    n_adjectives, stop = int(rng.integers(0, 3)), rng.random() < 0.5
    noun, verb = n_adjectives + 1, n_adjectives + 2
    forms = [f"adj{rng.integers(5)}" for _ in range(n_adjectives)]
    forms += [f"noun{rng.integers(8)}", f"verb{rng.integers(6)}", "."][: 2 + stop]
    tags = ["ADJ"] * n_adjectives + ["NOUN", "VERB", "PUNCT"][: 2 + stop]
    heads = [noun] * n_adjectives + [verb, 0, verb][: 2 + stop]
    return Sentence.of(forms, tags, heads)


def all_fits() -> dict[str, Fit]:
    """Every fit by its name."""
    return dict([*classifier_fits(), *other_fits()])


ATTRIBUTES: dict[str, Callable[[Any], Any]] = {
    "coefficients": lambda m: getattr(m, "dual_coef_", getattr(m, "coef_", ())),
    "kernel weights": lambda m: getattr(
        m, "kernel_weights_", getattr(m, "template_weights_", ())
    ),
    "gap": lambda m: getattr(m, "duality_gap_", np.nan),
}


def outcome(fit: Fit) -> dict[str, np.ndarray]:
    """Arrays that a fit learned and predicts."""
    model, X, y, new, options = fit
    model.fit(X, **options) if y is None else model.fit(X, y, **options)
    found = {name: flat(read(model)) for name, read in ATTRIBUTES.items()}
    return found | {"predictions": flat(predicted(model, new))}


def predicted(model: Any, new: Any) -> Any:
    """Scores, where the model has them, else predictions."""
    if hasattr(model, "decision_function"):
        return model.decision_function(new)
    if isinstance(model, mk.DependencyParser):
        return [tree.heads for tree in model.predict(new)]
    return model.predict(new)


def flat(found: Any) -> np.ndarray:
    """One row of numbers."""
    if isinstance(found, list | tuple):
        parts = [flat(part) for part in found]
        return np.concatenate(parts) if parts else np.empty(0)
    if isinstance(found, dict):
        return flat(list(found.values()))
    if hasattr(found, "toarray"):
        found = found.toarray()
    return np.asarray(found, dtype=np.float64).ravel()
