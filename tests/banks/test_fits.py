"""Where kernel values live must not change what is learned."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

from manykernels import MKLClassifier
from manykernels.banks import Storage, gramfile

X, y = load_digits(return_X_y=True)
X, y = X[:450] / 16.0, y[:450]
ANY = "rbf@0-31; rbf@32-63; polynomial:degree=2"
LINEAR = "linear@0-31; linear@32-63; cosine"
COMPACT = "bspline@20; bspline@36; bspline@43"


def fit(storage: str, kernels: str = ANY, **options: object) -> MKLClassifier:
    settings = {"tol": 1e-3, "random_state": 0, **options}
    precise = Storage.of(storage, "float64")
    return MKLClassifier(kernels, storage=precise, **settings).fit(X, y)


every_storage = pytest.mark.parametrize(
    ("kernels", "storage"),
    [
        (ANY, "memmap"),
        (ANY, "on_demand"),
        (LINEAR, "features"),
        (LINEAR, "memmap"),
        (COMPACT, "sparse"),
        (COMPACT, "memmap"),
    ],
)


@every_storage
@pytest.mark.parametrize("solver", ["dual_ascent", "obscure"])
def test_every_storage_learns_the_same(kernels: str, storage: str, solver: str) -> None:
    dense, other = (fit(s, kernels, solver=solver) for s in ("gram", storage))
    assert other.objective_ == pytest.approx(dense.objective_, rel=1e-6)
    np.testing.assert_allclose(other.kernel_weights_, dense.kernel_weights_, atol=1e-4)
    np.testing.assert_allclose(
        other.decision_function(X), dense.decision_function(X), atol=1e-3
    )


@every_storage
def test_auto_finds_the_same_optimum(kernels: str, storage: str) -> None:
    """From different starts, as rows that are not at hand skip the online stage."""
    dense, other = (fit(s, kernels, tol=1e-5) for s in ("gram", storage))
    assert other.objective_ == pytest.approx(dense.objective_, rel=1.1e-5)


def test_a_small_memory_limit_keeps_working_sets_in_the_file() -> None:
    from manykernels.banks import build
    from manykernels.kernels.grammar import as_kernels
    from manykernels.kernels.kernel_set import KernelSet

    kernels = KernelSet.fit(as_kernels(ANY), X, dtype=np.float64)
    tight = fit("memmap", memory_limit=build.memmap_bytes(kernels))
    assert tight.objective_ == pytest.approx(fit("gram").objective_, rel=2e-3)
    assert tight.duality_gap_ <= 1e-3 * tight.objective_


@pytest.mark.parametrize("storage", ["gram", "memmap"])
@pytest.mark.parametrize("solver", ["auto", "obscure"])
def test_half_precision_learns_nearly_the_same(storage: str, solver: str) -> None:
    half = fit(f"{storage}:float16", solver=solver)
    single = fit("gram:float32", solver=solver)
    assert half.objective_ == pytest.approx(single.objective_, rel=5e-3)
    assert np.mean(half.predict(X) == single.predict(X)) > 0.99
    if solver == "auto":
        assert half.duality_gap_ <= 1e-3 * half.objective_


def test_half_precision_is_the_same_in_memory_and_in_a_file() -> None:
    memory, file = (fit(s) for s in ("gram:float16", "memmap:float16"))
    np.testing.assert_allclose(file.dual_coef_, memory.dual_coef_, atol=1e-6)


def test_partial_fit_takes_half_precision_as_single() -> None:
    models = [
        MKLClassifier("rbf", storage=dtype, random_state=0).partial_fit(
            X, y, classes=np.arange(10)
        )
        for dtype in ("float16", "float32")
    ]
    np.testing.assert_array_equal(models[0].dual_coef_, models[1].dual_coef_)


def test_a_path_of_C_computes_its_kernels_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    original = gramfile.fill_right
    monkeypatch.setattr(
        gramfile, "fill_right", lambda *args: (calls.append(1), original(*args))[1]
    )
    model = MKLClassifier(
        ANY,
        storage=Storage("memmap", "float64", tmp_path),
        solver="dual_ascent",
        random_state=0,
    )
    for C in (0.1, 1.0, 10.0):
        again = clone(model).set_params(C=C).fit(X, y)
        assert len(calls) == 2  # bands of 450 rows
        free = fit("gram", C=C, tol=1e-2, solver="dual_ascent")
        assert again.objective_ == pytest.approx(free.objective_, rel=1e-6)
    assert len(list(tmp_path.iterdir())) == 2


def test_verbose_shows_the_choice_before_the_first_epoch(
    capsys: pytest.CaptureFixture[str],
) -> None:
    level = logging.getLogger("manykernels").level
    handlers = list(logging.getLogger("manykernels").handlers)
    fit("memmap", verbose=1)
    lines = capsys.readouterr().err.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("epoch"))
    assert any("storing 3 kernels as memmap: about" in line for line in lines[:first])
    assert all(line.startswith("epoch") for line in lines[first:])
    assert logging.getLogger("manykernels").level == level
    assert logging.getLogger("manykernels").handlers == handlers
    fit("memmap")
    assert capsys.readouterr().err == ""
