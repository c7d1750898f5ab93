"""Models of every estimator, checkpoints and Gram files as inputs of the attacker."""

import json
import os
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.base import clone

import manykernels as mk
from manykernels.banks.gramfile import stored_file
from manykernels.files import read_container
from manykernels.kernels import RBF, Linear
from manykernels.kernels.kernel_set import KernelSet
from tests.files.test_all_estimators import CASES
from tests.fuzz.memory import require_little_memory
from tests.fuzz.mutate import mutated, one_of
from tests.fuzz.structure import changed_document, forged


class BrokenInvariantError(AssertionError):
    """A file that was accepted, but whose model is not sound."""


class SaidLaterError(ValueError):
    """A forged number is fine until a row overflows, a name until it is looked for."""


def require(name, right):
    if not right:
        raise BrokenInvariantError(f"a model was loaded whose {name} is not sound")


# --- models ------------------------------------------------------------------------


@cache
def _seed(name):
    """Content and arrays of the saved model of a case."""
    model, data, _ = CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        clone(model).fit(*data).save(path)
        return read_container(path), path.read_bytes()


def make_model(rng) -> bytes:
    """A forged file of some estimator, whose name stands before it."""
    name = one_of(rng, list(CASES))
    parts, whole = _seed(name)
    content = forged(rng, *parts) if rng.random() < 0.95 else mutated(rng, whole)
    return name.encode() + b"\n" + content


def load_model(content: bytes) -> None:
    """Load, look and predict: one sentence, or a model that is sound."""
    name, _, whole = content.partition(b"\n")
    new = CASES[name.decode()][2]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        path.write_bytes(whole)
        with require_little_memory(len(whole)):
            model = mk.load(path)
        require_sound(model)
        model.summary()
        try:
            answers = _answers(model, new)
        except ValueError as error:
            for words in ("got an overflow", "feature names should match"):
                if words in str(error):
                    raise SaidLaterError(f"predict says: {words}.") from error
            raise AssertionError(str(error)) from error
        model.save(path)
        again = _answers(mk.load(path), new)
    require("answer after another save", _same(answers, again))


def require_sound(model):
    """What holds for every fitted estimator."""
    weights = getattr(model, "kernel_weights_", None)
    if weights is not None:
        weights = np.asarray(weights)
        require("kernel_weights_", np.isfinite(weights).all() and (weights >= 0).all())
        names = getattr(model, "kernel_names_", None)
        if names is not None:
            require("kernel_names_", weights.shape[-1] == len(names))
            require("kernel_names_", all(isinstance(name, str) for name in names))
    classes = getattr(model, "classes_", None)
    if classes is not None:
        ordered = np.sort(np.asarray(classes))
        require("classes_", np.array_equal(ordered, classes))
        require("classes_", len(set(ordered.tolist())) == len(ordered) > 1)
    temperature = vars(model).get("temperature_")
    if temperature is not None:
        require("temperature_", np.isfinite(temperature) and temperature > 0)
    for name in ("n_iter_", "n_features_in_"):
        value = getattr(model, name, 0)
        require(name, type(value) is int and value >= 0)


def _answers(model, new):
    found = [model.predict(new)]
    if hasattr(model, "decision_function"):
        scores = np.asarray(model.decision_function(new))
        require("decision_function", np.isfinite(scores).all())
    if hasattr(model, "predict_proba"):
        shares = model.predict_proba(new)
        require("predict_proba", np.isfinite(shares).all() and (shares >= 0).all())
        require("predict_proba", np.allclose(shares.sum(axis=1), 1.0))
        found.append(shares)
    classes = getattr(model, "classes_", None)
    if classes is not None and isinstance(found[0], np.ndarray):
        require("predict", np.isin(found[0], classes).all())
    require("number of answers", len(found[0]) == len(new))
    return found


def _same(one, other):
    for a, b in zip(one, other, strict=True):
        a, b = [a, b] if isinstance(a, np.ndarray) else [np.hstack(a), np.hstack(b)]
        if a.shape != b.shape or not np.array_equal(
            a, b, equal_nan=a.dtype.kind == "f"
        ):
            return False
    return True


# --- checkpoints -------------------------------------------------------------------

ROWS = np.random.default_rng(1).normal(size=(30, 3))
LABELS = np.arange(30) % 3
FITS = {
    "ascent": (mk.MKLClassifier, {"p": 1.2}),
    "level": (mk.MKLClassifier, {"p": 1.0}),
    "obscure": (mk.MKLClassifier, {"p": 1.2, "solver": "obscure"}),
    "rows": (
        mk.MKLClassifier,
        {"p": 1.2, "solver": "obscure", "storage": "on_demand"},
    ),
    "newton": (mk.MKLClassifier, {"p": 1.2, "loss": "log"}),
    "ridge": (mk.MKLRegressor, {"p": 1.2}),
    "tube": (mk.MKLRegressor, {"p": 1.2, "loss": "epsilon_insensitive"}),
}


def _checkpointed(name, path, tol, max_iter=40):
    cls, settings = FITS[name]
    settings = {"tol": tol, "max_iter": max_iter, "random_state": 0, **settings}
    model = cls("rbf; linear", C=5.0, checkpoint=path, **settings)
    return model.fit(ROWS, LABELS if cls is mk.MKLClassifier else ROWS[:, 0])


@cache
def _state(name):
    """A checkpoint of a fit under way, and the objective of the whole fit."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        _checkpointed(name, path, 0.5, max_iter=3)
        parts, whole = read_container(path), path.read_bytes()
    return parts, whole, _checkpointed(name, None, 1e-6, 200).objective_


def make_checkpoint(rng) -> bytes:
    name = one_of(rng, list(FITS))
    parts, whole, _ = _state(name)
    content = forged(rng, *parts) if rng.random() < 0.95 else mutated(rng, whole)
    return name.encode() + b"\n" + content


def resume(content: bytes) -> None:
    """Go on from a checkpoint: one sentence, or a certificate that holds."""
    name, _, whole = content.partition(b"\n")
    best = _state(name.decode())[2]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        path.write_bytes(whole)
        with require_little_memory(len(whole)):
            model = _checkpointed(name.decode(), path, 1e-3)
    lower = model.objective_ - model.duality_gap_
    require("objective_", np.isfinite(model.objective_))
    require("objective_", model.objective_ >= best * (1.0 - 1e-4) - 1e-9)
    require("duality_gap_", lower <= best * (1.0 + 1e-9) + 1e-12)


# --- Gram files --------------------------------------------------------------------

POINTS = np.random.default_rng(2).normal(size=(20, 2))
BETWEEN = b"\n--- values ---\n"


@cache
def _gram():
    kernels = KernelSet.fit([RBF(0.5), Linear()], POINTS)
    with tempfile.TemporaryDirectory() as folder:
        file = stored_file(kernels, folder=folder)
        described = json.loads(file.description_path.read_text())
        return kernels, file.path.name, described, file.path.read_bytes()


def make_gram(rng) -> bytes:
    """Another description, or values of another size."""
    _, _, described, values = _gram()
    described = json.loads(json.dumps(described))
    choice = rng.integers(3)
    if choice == 0:
        values = values[: int(rng.integers(len(values)))] * int(rng.integers(1, 3))
    if choice == 1:
        described = changed_document(rng, described)
    if choice == 2:
        described["finished_rows"] = one_of(rng, [0, 20, -1, 2**70, [20], True])
    text = json.dumps(described).encode()
    return (mutated(rng, text) if rng.random() < 0.1 else text) + BETWEEN + values


def read_gram(content: bytes) -> None:
    """Take up what a folder holds: refused, computed anew, or read as it is."""
    kernels, name, _, right = _gram()
    text, _, values = content.partition(BETWEEN)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(values)
        path.with_suffix(".json").write_bytes(text)
        file = stored_file(kernels, folder=folder)
        found = file[np.arange(20)]
        require("number of bytes", os.stat(path).st_size == len(right))
    require("values", found.tobytes() in (right, values))
