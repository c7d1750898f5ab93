"""Labels of sequences from multiple kernels on their positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from manykernels.base.stored import (
    Count,
    Floats,
    Labels,
    ListOf,
    Maybe,
    Part,
    Real,
    require_all,
)
from manykernels.chains.choices import (
    choose_chain_loss,
    choose_epochs,
    choose_eta0,
    choose_regularizer,
    choose_transitions,
)
from manykernels.chains.decoder import marginals, viterbi
from manykernels.chains.descent import ChainDescent, ChainProgress
from manykernels.chains.inputs import (
    Positions,
    TokenColumns,
    known_labels,
    read_labels,
    read_sequences,
)
from manykernels.chains.model import SequenceKernels, SequenceModel
from manykernels.chains.online_proximal import ChainEpoch, OnlineProximal
from manykernels.chains.problem import (
    ChainBlocks,
    ChainProblem,
    ChainWeights,
    chain_terms,
)
from manykernels.files import Saved, by_weight
from manykernels.inputs.parameters import Whole, choose_generator, require_number
from manykernels.inputs.reporting import progress_callback
from manykernels.kernels import Kernel, Linear, approximate_kernels, as_kernels


@dataclass(frozen=True)
class _Settings:
    """Checked parameters, for a known number of labels and kernels."""

    C: float
    loss: Any
    regularizer: Any
    transitions: str

    def problem(
        self, blocks: ChainBlocks, starts: Any, target: Any, n_labels: int, weight: Any
    ) -> ChainProblem:
        terms = chain_terms(self.regularizer, blocks.n_blocks, self.transitions)
        return ChainProblem(
            blocks,
            starts,
            target,
            n_labels,
            self.loss,
            terms,
            self.C,
            weight,
            self.transitions != "none",
        )


class SequenceLabeler(Saved, BaseEstimator):
    r"""Label every position of a sequence; learn the weight of every kernel on the way.

    A sequence of labels scores :math:`\sum_t s(x_t)_{y_t} + \sum_t T_{y_{t-1}, y_t}`
    with s from all kernels. Minimizes :math:`\lambda \Omega(w)` plus the mean loss of
    the sequences with SPOM, an online proximal method.

    Parameters
    ----------
    kernels : None, str, Kernel or list of these
        Kernels on the features of a position, see :mod:`manykernels.kernels`. Linear
        and approximate ones work on explicit features, also sparse; compact ones on
        sparse matrices. None takes a linear kernel for token dicts, and otherwise a
        linear, a quadratic and three Gaussian ones.
    regularizer : str or regularizer, default="sparse_mkl"
        "sparse_mkl", "group_lasso", "squared_l2" (all kernels alike), "elastic_net",
        "squared_p", "power", "sparse_group_lasso", or an object of
        :mod:`manykernels.norms` such as ``SquaredPNorm(1.2)``.
    C : float, default=10.0
        Weight of the losses; ``lambda = 1 / (C n_sequences)``.
    loss : {"hinge", "crf"}, default="hinge"
        Structured hinge loss, or minus the log probability of the labels.
    transitions : {"fixed", "learned", "none"}, default="fixed"
        Scores of neighboring labels: with a regularizer of their own, as one more
        block that competes with the kernels, or not at all.
    cost : array of shape (n_labels, n_labels), optional
        For the hinge: what each label (column) costs in place of the true one (row).
    window : int, optional
        Only for token dicts: neighbors on each side whose attributes a token shows as
        well, as "name:-1" and so on; it also gets a "bias", and the outermost "first"
        and "last". None takes tokens as they are.
    max_iter : int, default=20
        Epochs.
    eta0 : float or "auto", default=0.1
        Step of the first epoch; "auto" tries four for five epochs each.
    step : {"epoch", "sqrt", "constant", "strong"}, default="epoch"
        How steps fall, see :class:`manykernels.solvers.OnlineProximal`.
    radius : float, "bound" or None, default=None
        Project on a ball after every step.
    average : bool, default=False
        Predict with the mean of all models instead of the last.
    approximate : {"nystroem", "random_features", None}, default=None
        Approximate kernels that have no features of their own.
    rank : int, default=300
    psd : {"check", "clip", "skip"}, default="check"
        What to do about kernels with negative eigenvalues.
    dtype : {"float32", "float64"}, default="float32"
        Precision of kernel values; predictions are float64.
    memory_limit : int or str, optional
        Bytes, or text such as "4GB", that dense kernel values may take.
    callback : callable, optional
        Called with each line of the history; returning True stops the fit.
    verbose : int, default=0
        1 prints a line per epoch to standard error.
    random_state : int, RandomState or None

    Attributes
    ----------
    classes_ : array of shape (n_labels,)
    kernel_weights_ : array of shape (n_kernels,)
        Norms of the kernels' parts, divided by their sum.
    kernel_names_ : list of str
    transitions_ : array of shape (n_labels, n_labels)
        Score of each label (column) after another (row).
    transition_weight_ : float
        Norm of the transitions, divided by the sum of the kernels' norms.
    objective_ : float
        Of the chosen model on the training sequences.
    history_ : list of ChainEpoch
        epoch, time, objective, mean loss met on the way, updates.
    n_iter_ : int
    eta0_ : float
    n_features_in_ : int
    feature_names_in_ : array of str
        Only for token dicts: "name=value" for texts, "name" for numbers.
    token_attributes_ : list of str
        Only for token dicts: names of their own attributes, without the neighbors'.

    Examples
    --------
    >>> X = [[{"word": "the"}, {"word": "cat"}, {"word": "sleeps"}],
    ...      [{"word": "a"}, {"word": "dog"}, {"word": "barks"}]]
    >>> y = [["det", "noun", "verb"], ["det", "noun", "verb"]]
    >>> model = SequenceLabeler(random_state=0).fit(X, y)
    >>> new = [{"word": "the"}, {"word": "dog"}, {"word": "sleeps"}]
    >>> model.predict([new])[0].tolist()
    ['det', 'noun', 'verb']
    """

    input_kind = "sequences"
    _stored = {
        "classes_": Labels("labels"),
        "_model": Part(SequenceModel),
        "_columns": Maybe(Part(TokenColumns)),
        "kernel_weights_": Floats("kernels", low=0.0),
        "transition_weight_": Real(low=0.0),
        "objective_": Real(nan=True),
        "eta0_": Real(low=0.0),
        "history_": ListOf(Part(ChainEpoch)),
        "n_features_in_": Count(),
    }
    _required = ("regularizer", "cost")

    def __init__(
        self,
        kernels: Any = None,
        regularizer: Any = "sparse_mkl",
        C: float = 10.0,
        loss: str = "hinge",
        transitions: str = "fixed",
        cost: Any = None,
        window: int | None = None,
        max_iter: int = 20,
        eta0: float | str = 0.1,
        step: str = "epoch",
        radius: float | str | None = None,
        average: bool = False,
        approximate: str | None = None,
        rank: int = 300,
        psd: Any = "check",
        dtype: str = "float32",
        memory_limit: int | str | None = None,
        callback: Any = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.kernels = kernels
        self.regularizer = regularizer
        self.C = C
        self.loss = loss
        self.transitions = transitions
        self.cost = cost
        self.window = window
        self.max_iter = max_iter
        self.eta0 = eta0
        self.step = step
        self.radius = radius
        self.average = average
        self.approximate = approximate
        self.rank = rank
        self.psd = psd
        self.dtype = dtype
        self.memory_limit = memory_limit
        self.callback = callback
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SequenceLabeler:
        """Learn from labeled sequences.

        Parameters
        ----------
        X : list of arrays (length, features), or of lists of token dicts
        y : list of label sequences
            Labels of any type, one per position.
        sample_weight : array of shape (n_sequences,), optional
        """
        solver = self._solver()
        callback = progress_callback(self.verbose, None, self.callback)
        positions, labels = self._read_training(X, y)
        classes = _require_labels(np.unique(labels))
        target = known_labels(labels, classes)
        settings = self._settings(len(classes))
        weight = _chain_weight(sample_weight, positions.n_sequences)
        rng = choose_generator(self.random_state)
        kernels = self._fit_kernels(positions.table, rng)
        n_positions = positions.table.shape[0]
        blocks = kernels.blocks(
            kernels.training_features(), n_positions, self.memory_limit
        )
        problem = settings.problem(
            blocks, positions.starts, target, len(classes), weight
        )
        result = solver.solve(problem, callback=callback)
        model = SequenceModel.keep_support(
            kernels, result.progress, self.average, positions.n_sequences, 0
        )
        self.classes_ = classes
        self.objective_, self.eta0_ = result.objective, result.eta0
        return self._store(model, result.block_norms, result.history)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> SequenceLabeler:
        """Learn from more sequences with one pass over them.

        Parameters
        ----------
        X : list of sequences
            Kernels and columns of tokens stay those of the first call.
        y : list of label sequences
        classes : array, optional
            All labels that will ever come; those of the first y if not given.
        """
        past: SequenceModel | None = getattr(self, "_model", None)
        if past is None:
            positions, labels = self._read_training(X, y)
            every = labels if classes is None else np.asarray(classes)
            known = _require_labels(np.unique(every))
        else:
            positions = self._read(X)
            labels, known = read_labels(y, positions), self.classes_
            _require_same_classes(classes, known)
        target = known_labels(labels, known)
        settings = self._settings(len(known))
        rng = choose_generator(self.random_state)
        if past is None:
            kernels = self._fit_kernels(positions.table, rng)
            past = _nothing(kernels, self.average, len(known))
        else:
            kernels = past.kernels.extend(positions.table)
        self._learn_once(past, kernels, positions, target, settings, known, rng)
        return self

    def predict(self, X: Any) -> list[np.ndarray]:
        """The labels of the highest score, one array per sequence."""
        check_is_fitted(self, "classes_")
        positions = self._read(X)
        labels = viterbi(
            self._model.scores(positions.table), self.transitions_, positions.starts
        )
        return positions.split(self.classes_[labels])

    def predict_marginals(self, X: Any) -> list[np.ndarray]:
        """Probability of each label at each position, (length, n_labels) arrays.

        Only with loss="crf": scores of the hinge are no log probabilities.
        """
        check_is_fitted(self, "classes_")
        if self.loss != "crf":
            raise ValueError(
                f"predict_marginals needs loss='crf', got loss={self.loss!r}; fit with "
                "loss='crf' for probabilities."
            )
        positions = self._read(X)
        found = marginals(
            self._model.scores(positions.table), self.transitions_, positions.starts
        )
        return positions.split(found.labels)

    def position_scores(self, X: Any) -> list[np.ndarray]:
        """Scores of each label at each position, without the transitions."""
        check_is_fitted(self, "classes_")
        positions = self._read(X)
        return positions.split(self._model.scores(positions.table))

    def score(self, X: Any, y: Any) -> float:
        """Share of the positions that get their label."""
        right, _ = self._compare(X, y)
        return float(right.mean())

    def score_sequences(self, X: Any, y: Any) -> float:
        """Share of the sequences without any wrong label."""
        right, positions = self._compare(X, y)
        whole = [bool(part.all()) for part in positions.split(right)]
        return float(np.mean(whole))

    def _learn_once(
        self,
        past: SequenceModel,
        kernels: SequenceKernels,
        positions: Positions,
        target: np.ndarray,
        settings: _Settings,
        classes: np.ndarray,
        rng: np.random.Generator,
    ) -> None:
        """One pass over new sequences, which follow the support positions."""
        n_old = past.kernels.n_reference
        n_new = positions.table.shape[0]
        features = [
            sp.vstack([sp.csr_matrix((n_old, phi.shape[1])), sp.csr_matrix(phi)])
            for phi in kernels.new_features(positions.table)
        ]
        blocks = kernels.blocks(features, n_old + n_new, self.memory_limit)
        # The support positions are a chain that is never visited.
        first = [0] if n_old else []
        starts = np.concatenate([first, positions.starts + n_old]).astype(np.int64)
        n_seen = past.n_sequences + positions.n_sequences
        weight = np.full(len(starts) - 1, n_seen / (len(starts) - 1))
        problem = settings.problem(
            blocks,
            starts,
            np.concatenate([np.zeros(n_old, np.int64), target]),
            len(classes),
            weight,
        )
        solver = self._solver()
        if solver.eta0 == "auto":
            raise ValueError(
                "eta0 must be a number for partial_fit, got 'auto', which needs more "
                "than one epoch; choose for instance 0.1."
            )
        start = _padded(past.progress, n_new)
        descent = ChainDescent(
            problem, start, averaged=self.average, radius=solver.projection(problem)
        )
        order = len(first) + rng.permutation(positions.n_sequences)
        call = past.n_calls + 1
        steps = solver.steps(problem, call, descent.n_steps)[: len(order)]
        updates, loss = descent.run_pass(order, steps, rng)
        model = SequenceModel.keep_support(
            kernels, descent.progress(), self.average, n_seen, call
        )
        history = list(getattr(self, "history_", []))
        history.append(ChainEpoch(len(history) + 1, 0.0, np.nan, loss, updates))
        self.classes_ = classes
        self.objective_, self.eta0_ = float("nan"), float(solver.eta0)
        self._store(model, descent.block_norms(), history)

    def _store(
        self, model: SequenceModel, norms: np.ndarray, history: list[ChainEpoch]
    ) -> SequenceLabeler:
        self._model = model
        total = float(norms[:-1].sum()) or 1.0
        self.kernel_weights_ = norms[:-1] / total
        self.transition_weight_ = float(norms[-1]) / total
        self.history_ = history
        self._show_model()
        return self

    def _show_model(self) -> None:
        """Attributes that follow from others."""
        self.kernel_names_ = list(self._model.kernels.names)
        self.transitions_ = self._model.weights.pairs
        self.n_iter_ = len(self.history_)
        for name in ("feature_names_in_", "token_attributes_"):
            self.__dict__.pop(name, None)
        if self._columns is not None:
            self.feature_names_in_ = np.array(self._columns.names, dtype=object)
            self.token_attributes_ = self._columns.attributes

    def _restored(self) -> None:
        kernels, columns = self._model.kernels, self._columns
        sets = [kernels.dense, kernels.sparse, kernels.explicit]
        widths = {known.n_columns for known in sets if known is not None}
        require_all(
            "SequenceLabeler",
            {
                "labels": len(self.classes_) == len(self._model.weights.pairs),
                "kernels": len(self.kernel_weights_) == len(kernels.names),
                "columns": widths == {self.n_features_in_},
                "tokens": columns is None or {len(columns.names)} == widths,
            },
        )
        rows = [known.blank_row() for known in sets if known is not None]
        tried = all(row is not None for row in rows)
        if tried and not np.isfinite(self._model.scores(rows[0])).all():
            raise ValueError("its scores are no finite numbers")
        self._show_model()

    def _fitted_kernels(self) -> list[Kernel]:
        return self._model.kernels.fitted

    def _facts(self) -> dict[str, Any]:
        return {
            "labels": self.classes_.tolist(),
            "features": self.n_features_in_,
            "attributes": getattr(self, "token_attributes_", None),
            "support_positions": self._model.kernels.n_reference,
            "kernels": by_weight(self.kernel_names_, self.kernel_weights_),
            "transition_weight": self.transition_weight_,
            "objective": self.objective_,
            "epochs": self.n_iter_,
        }

    def _solver(self) -> OnlineProximal:
        radius = self.radius
        if radius is not None and not isinstance(radius, str):
            radius = require_number("radius", radius, 0.0)
        return OnlineProximal(
            choose_epochs(self.max_iter),
            self.step,
            choose_eta0(self.eta0),
            radius=radius,
            average=bool(self.average),
            random_state=choose_generator(self.random_state),
        )

    def _settings(self, n_labels: int) -> _Settings:
        return _Settings(
            require_number("C", self.C, 0.0),
            choose_chain_loss(self.loss, self.cost, n_labels),
            choose_regularizer(self.regularizer),
            choose_transitions(self.transitions),
        )

    def _fit_kernels(self, table: Any, rng: np.random.Generator) -> SequenceKernels:
        specs: list[Kernel] = as_kernels(self.kernels)
        if self.kernels is None and self._columns is not None:
            specs = [Linear()]
        specs = approximate_kernels(specs, self.approximate, self.rank)
        return SequenceKernels.fit(
            specs,
            table,
            feature_names=None if self._columns is None else self._columns.names,
            dtype=self.dtype,
            psd=self.psd,
            random_state=rng,
        )

    def _read_training(self, X: Any, y: Any) -> tuple[Positions, np.ndarray]:
        Whole(0, optional=True, example=1).check("window", self.window)
        positions, columns = read_sequences(X, None, None, self.window)
        labels = read_labels(y, positions)
        self._columns = columns
        self.n_features_in_ = int(positions.table.shape[1])
        return positions, labels

    def _read(self, X: Any) -> Positions:
        return read_sequences(X, self._columns, self.n_features_in_)[0]

    def _compare(self, X: Any, y: Any) -> tuple[np.ndarray, Positions]:
        predicted = self.predict(X)
        positions = self._read(X)
        labels = read_labels(y, positions)
        if not predicted:
            raise ValueError("X must hold a sequence to score, got none; pass some.")
        return np.concatenate(predicted) == labels, positions


def _require_labels(classes: np.ndarray) -> np.ndarray:
    if len(classes) < 2:
        raise ValueError(
            "SequenceLabeler needs at least 2 labels to tell apart, got "
            f"{classes.tolist()}; check y."
        )
    return classes


def _require_same_classes(classes: Any, known: np.ndarray) -> None:
    if classes is not None and not np.array_equal(np.unique(classes), known):
        raise ValueError(
            "classes must stay the same in every call to partial_fit, got "
            f"{np.unique(classes).tolist()} after {known.tolist()}; leave the argument "
            "out, or start a new model."
        )


def _chain_weight(sample_weight: Any, n_sequences: int) -> np.ndarray:
    if sample_weight is None:
        return np.ones(n_sequences)
    weight = np.asarray(sample_weight, dtype=np.float64)
    good = weight.shape == (n_sequences,) and np.isfinite(weight).all()
    if not good or np.any(weight < 0.0) or not weight.any():
        raise ValueError(
            f"sample_weight must be {n_sequences} numbers >= 0, one per sequence and "
            f"not all zero, got {sample_weight!r}; leave it out to count all alike."
        )
    return weight


def _nothing(kernels: SequenceKernels, averaged: bool, n_labels: int) -> SequenceModel:
    """A model that has learned nothing, on no positions."""
    n_rows = sum(kernels.feature_columns)
    zero = ChainWeights(
        np.zeros((len(kernels.kernel_at), 0, n_labels)),
        np.zeros((n_rows, n_labels)),
        np.zeros((n_labels, n_labels)),
    )
    nobody = kernels.for_new_rows(np.empty(0, np.intp))
    total = zero if averaged else None
    return SequenceModel(nobody, ChainProgress(zero, total, 0), averaged, 0, 0)


def _padded(progress: ChainProgress, n_new: int) -> ChainProgress:
    """The same model with new positions, which have no coefficients yet."""

    def grown(weights: ChainWeights) -> ChainWeights:
        coef = np.pad(weights.coef, ((0, 0), (0, n_new), (0, 0)))
        return ChainWeights(coef, weights.table, weights.pairs)

    total = None if progress.total is None else grown(progress.total)
    return ChainProgress(grown(progress.last), total, progress.n_steps)
