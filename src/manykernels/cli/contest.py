"""The demonstration's contest: learnt weights against simpler uses of kernels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC
from sklearn.utils import Bunch
from threadpoolctl import threadpool_limits

from manykernels.kernels import KernelSet, Precomputed, as_kernels
from manykernels.mkl import MKLClassifier

# Every contender chooses its C from these by cross-validation on the training rows.
C_VALUES = (1.0, 10.0, 100.0)
FOLDS = 3
WARM_UP_ROWS = 120  # enough for every compiled loop to run once


@dataclass(frozen=True)
class Result:
    """One line of the table; None where a column makes no sense."""

    method: str
    kernels: str
    accuracy: float
    seconds: float
    C: float
    gap: float | None = None
    used: int | None = None
    noise_weight: float | None = None
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Arena:
    """Kernel values of one data set, ready for every contender.

    Stacks have shape (rows, training rows, kernels), what scikit-learn can slice.
    """

    train: np.ndarray
    test: np.ndarray
    target: np.ndarray
    target_test: np.ndarray
    names: list[str]
    groups: np.ndarray
    seed: int

    @classmethod
    def build(cls, digits: Bunch, seed: int) -> Arena:
        """Compute all kernels once, normalized with the training rows only."""
        kernels = KernelSet.fit(as_kernels(digits.kernels), digits.data)
        test = np.concatenate([b for _, b in kernels.cross(digits.data_test)], axis=1)
        return cls(
            np.moveaxis(kernels.stack(), 0, -1),
            np.moveaxis(test, 0, -1),
            digits.target,
            digits.target_test,
            kernels.names,
            np.array(digits.groups),
            seed,
        )

    def useful(self) -> Arena:
        """The same rows without the noise kernels."""
        keep = self.groups == "useful"
        return Arena(
            self.train[..., keep],
            self.test[..., keep],
            self.target,
            self.target_test,
            [name for name, k in zip(self.names, keep, strict=True) if k],
            self.groups[keep],
            self.seed,
        )

    @property
    def title(self) -> str:
        """What the kernels are, in words."""
        n_noise = int((self.groups == "noise").sum())
        useful = len(self.groups) - n_noise
        return f"{useful} useful + {n_noise} noise" if n_noise else f"{useful} useful"

    def search(self, model: Any) -> GridSearchCV:
        """A search for C by cross-validation, which refits on all training rows."""
        smallest = int(np.bincount(self.target).min())
        n_folds = max(2, min(FOLDS, smallest))
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=self.seed)
        return GridSearchCV(model, {"C": list(C_VALUES)}, cv=folds, error_score="raise")


def learn_weights(arena: Arena, p: float) -> tuple[Result, MKLClassifier]:
    """Multiple kernel learning at exponent p."""
    specs = [Precomputed(columns=f, name=n) for f, n in enumerate(arena.names)]
    model = MKLClassifier(specs, p=p, random_state=arena.seed)
    with warnings.catch_warnings():
        # A fold that stops early only makes the choice of C a little rougher; the
        # table shows the gap of the final fit.
        warnings.simplefilter("ignore", ConvergenceWarning)
        search = arena.search(model).fit(arena.train, arena.target)
    fitted = search.best_estimator_
    weights = fitted.kernel_weights_
    result = Result(
        f"MKL, p = {p:g}",
        arena.title,
        float(fitted.score(arena.test, arena.target_test)),
        float(search.refit_time_),
        float(fitted.C),
        float(fitted.duality_gap_ / fitted.objective_),
        int((weights > 0.0).sum()),
        float(weights[arena.groups == "noise"].sum()),
    )
    return result, fitted


def average_kernels(arena: Arena) -> Result:
    """An SVM on the mean of all kernels."""
    search = _svm(arena, arena.train.mean(axis=-1))
    accuracy = search.score(arena.test.mean(axis=-1), arena.target_test)
    noise = float(np.mean(arena.groups == "noise"))
    return Result(
        "SVM, averaged kernel",
        arena.title,
        float(accuracy),
        float(search.refit_time_),
        float(search.best_params_["C"]),
        used=len(arena.names),
        noise_weight=noise,
    )


def best_single_kernel(arena: Arena) -> Result:
    """An SVM on the kernel with the best cross-validated accuracy."""
    searches = [_svm(arena, arena.train[..., f]) for f in range(len(arena.names))]
    best = int(np.argmax([search.best_score_ for search in searches]))
    accuracy = searches[best].score(arena.test[..., best], arena.target_test)
    return Result(
        "SVM, best single kernel",
        arena.title,
        float(accuracy),
        float(searches[best].refit_time_),
        float(searches[best].best_params_["C"]),
        used=1,
        noise_weight=float(arena.groups[best] == "noise"),
        note=arena.names[best],
    )


def warm_up(arena: Arena) -> None:
    """Run the compiled loops once, so that their compilation is not timed."""
    rows = np.arange(min(WARM_UP_ROWS, len(arena.target)))
    stack = arena.train[np.ix_(rows, rows)]
    model = MKLClassifier("precomputed", p=1.25, tol=0.5, random_state=0)
    model.fit(stack, arena.target[rows])


Step = tuple[str, Callable[[], Result]]


class Contest:
    """All contenders in order; `model` is the one in the picture."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.model: MKLClassifier | None = None

    def run(self, announce: Callable[[str], object]) -> list[Result]:
        """Results of all contenders; `announce` is told who comes next."""
        results = []
        # The matrices are small: more BLAS threads would mostly wait for each other.
        with threadpool_limits(limits=1, user_api="blas"):
            for name, action in self.steps():
                announce(name)
                results.append(action())
        return results

    def steps(self) -> Iterator[Step]:
        """Names and actions, to be run one after the other."""
        yield "learning weights, p = 1", self._sparse
        yield "learning weights, p = 1.25", self._mild
        yield "averaging all kernels", lambda: average_kernels(self.arena)
        yield "trying single kernels", lambda: best_single_kernel(self.arena)
        if (self.arena.groups == "noise").any():
            useful = self.arena.useful()
            yield "learning, useful only", lambda: learn_weights(useful, 1.0)[0]
            yield "averaging, useful only", lambda: average_kernels(useful)

    def _sparse(self) -> Result:
        result, self.model = learn_weights(self.arena, 1.0)
        return result

    def _mild(self) -> Result:
        return learn_weights(self.arena, 1.25)[0]


def _svm(arena: Arena, kernel: np.ndarray) -> GridSearchCV:
    return arena.search(SVC(kernel="precomputed")).fit(kernel, arena.target)
