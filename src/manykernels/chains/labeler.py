"""Labels of sequences from multiple kernels on their positions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from manykernels.base import stored
from manykernels.base.machine import parse_bytes
from manykernels.base.stored import Maybe, Part, require_all
from manykernels.chains.decoder import marginals, viterbi
from manykernels.chains.descent import ChainDescent
from manykernels.chains.groups import grouped_kernels
from manykernels.chains.inputs import (
    Positions,
    TokenColumns,
    known_labels,
    read_labels,
    read_sequences,
    read_weights,
    require_labels,
)
from manykernels.chains.losses import chain_loss
from manykernels.chains.model import SequenceKernels, SequenceModel
from manykernels.chains.online_proximal import ChainEpoch, OnlineProximal
from manykernels.chains.problem import ChainBlocks, ChainProblem, chain_terms
from manykernels.files import Saved, by_weight
from manykernels.inputs.data import check_same_classes
from manykernels.inputs.parameters import (
    MODERATE,
    Function,
    Number,
    OneOf,
    Precision,
    ReadBy,
    Rules,
    Whole,
    check_parameters,
    choose_generator,
)
from manykernels.inputs.reporting import progress_callback
from manykernels.inputs.whole import whole_or_nothing
from manykernels.kernels import Kernel, Linear, approximate_kernels, as_kernels
from manykernels.norms.regularizers import REGULARIZERS

RULES: Rules = {
    "regularizer": OneOf(*REGULARIZERS, method="terms"),
    "C": Number(largest=MODERATE),
    "loss": OneOf("hinge", "crf"),
    "transitions": OneOf("fixed", "learned", "none"),
    "window": Whole(0, optional=True, example=1),
    "max_iter": Whole(optional=True, example=20),
    "solver": OneOf(None, method="solve"),
    "approximate": OneOf("nystroem", "random_features", None),
    "rank": Whole(example=300),
    "psd": OneOf("check", "clip", "skip"),
    "dtype": Precision(),
    "memory_limit": ReadBy(parse_bytes, optional=True),
    "callback": Function(optional=True),
}


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
    groups : dict, optional
        Only for token dicts: the kernels once for every group of columns. A name goes
        to a pattern (``"word=*"``), a prefix (``"word="``) or a function that takes a
        column's name and says whether it belongs.
    max_iter : int, optional
        Epochs; those of the solver, 20, if not given.
    solver : OnlineProximal, optional
        How to learn: the size of steps and how they fall, averaging, projection; see
        :class:`manykernels.chains.OnlineProximal`. Its random state is not used.
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
    n_iter_, n_features_in_ : int
    eta0_ : float
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
    _rules = RULES
    _stored = {
        "classes_": stored.Labels("labels"),
        "_model": Part(SequenceModel),
        "_columns": Maybe(Part(TokenColumns)),
        "kernel_weights_": stored.Floats("kernels", low=0.0),
        "transition_weight_": stored.Real(low=0.0),
        "objective_": stored.Real(nan=True),
        "eta0_": stored.Real(low=0.0),
        "history_": stored.ListOf(Part(ChainEpoch)),
        "n_features_in_": stored.Count(),
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
        groups: Any = None,
        max_iter: int | None = None,
        solver: OnlineProximal | None = None,
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
        self.groups = groups
        self.max_iter = max_iter
        self.solver = solver
        self.approximate = approximate
        self.rank = rank
        self.psd = psd
        self.dtype = dtype
        self.memory_limit = memory_limit
        self.callback = callback
        self.verbose = verbose
        self.random_state = random_state

    @whole_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SequenceLabeler:
        """Learn from labeled sequences.

        Parameters
        ----------
        X : list of arrays (length, features), or of lists of token dicts
        y : list of label sequences
            Labels of any type, one per position.
        sample_weight : array of shape (n_sequences,), optional
        """
        check_parameters(self, self._rules)
        callback = progress_callback(self.verbose, None, self.callback)
        positions, labels = self._read_training(X, y)
        classes = require_labels(labels)
        target = known_labels(labels, classes)
        weight = read_weights(sample_weight, positions.n_sequences)
        solver = self._solver()
        kernels = self._fit_kernels(positions.table)
        blocks = kernels.blocks(
            kernels.training_features(), positions.table.shape[0], self.memory_limit
        )
        problem = self._problem(blocks, positions.starts, target, len(classes), weight)
        result = solver.solve(problem, callback=callback)
        model = SequenceModel.keep_support(
            kernels, result.progress, solver.average, positions.n_sequences, 0
        )
        self.classes_, self.eta0_ = classes, result.eta0
        self.objective_ = result.objective
        return self._store(model, result.block_norms, result.history)

    @whole_or_nothing
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
        check_parameters(self, self._rules)
        past: SequenceModel | None = getattr(self, "_model", None)
        if past is None:
            positions, labels = self._read_training(X, y)
            known = require_labels(labels if classes is None else np.asarray(classes))
        else:
            positions = self._read(X)
            labels, known = read_labels(y, positions), self.classes_
            check_same_classes(classes, known)
        target = known_labels(labels, known)
        solver = self._solver()
        if solver.eta0 == "auto":
            raise ValueError(
                "eta0 must be a number for partial_fit, got 'auto', which needs more "
                "than one epoch; choose for instance 0.1."
            )
        if past is None:
            kernels = self._fit_kernels(positions.table)
            past = SequenceModel.empty(kernels, solver.average, len(known))
        else:
            kernels = past.kernels.extend(positions.table)
        self._learn_once(past, kernels, positions, target, solver, known)
        return self

    def predict(self, X: Any) -> list[np.ndarray]:
        """The labels of the highest score, one array per sequence."""
        positions = self._read(X)
        return positions.split(self.classes_[self._decode(positions)])

    def predict_marginals(self, X: Any) -> list[np.ndarray]:
        """Probability of each label at each position, (length, n_labels) arrays.

        Only with loss="crf": scores of the hinge are no log probabilities.
        """
        if self.loss != "crf":
            raise ValueError(
                f"predict_marginals needs loss='crf', got loss={self.loss!r}; fit with "
                "loss='crf' for probabilities."
            )
        positions = self._read(X)
        scores = self._model.scores(positions.table)
        found = marginals(scores, self.transitions_, positions.starts)
        return positions.split(found.labels)

    def position_scores(self, X: Any) -> list[np.ndarray]:
        """Scores of each label at each position, without the transitions."""
        positions = self._read(X)
        return positions.split(self._model.scores(positions.table))

    def score(self, X: Any, y: Any) -> float:
        """Share of the positions that get their label."""
        return float(self._compare(X, y)[0].mean())

    def score_sequences(self, X: Any, y: Any) -> float:
        """Share of the sequences without any wrong label."""
        right, positions = self._compare(X, y)
        return float(np.mean([part.all() for part in positions.split(right)]))

    def _learn_once(
        self,
        past: SequenceModel,
        kernels: SequenceKernels,
        positions: Positions,
        target: np.ndarray,
        solver: OnlineProximal,
        classes: np.ndarray,
    ) -> None:
        """One pass over new sequences, which follow the support positions."""
        n_old = past.kernels.n_reference
        blocks = kernels.blocks_after(n_old, positions.table, self.memory_limit)
        # The support positions are a chain that is never visited.
        first = [0] if n_old else []
        starts = np.concatenate([first, positions.starts + n_old]).astype(np.int64)
        n_seen = past.n_sequences + positions.n_sequences
        weight = np.full(len(starts) - 1, n_seen / (len(starts) - 1))
        target = np.concatenate([np.zeros(n_old, np.int64), target])
        problem = self._problem(blocks, starts, target, len(classes), weight)
        descent = ChainDescent(
            problem,
            past.progress.with_positions(positions.table.shape[0]),
            averaged=solver.average,
            radius=solver.projection(problem),
        )
        rng = choose_generator(self.random_state)
        order = len(first) + rng.permutation(positions.n_sequences)
        call = past.n_calls + 1
        steps = solver.steps(problem, call, descent.n_steps)[: len(order)]
        updates, loss = descent.run_pass(order, steps, rng)
        model = SequenceModel.keep_support(
            kernels, descent.progress(), solver.average, n_seen, call
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
        chosen = OnlineProximal() if self.solver is None else self.solver
        epochs = chosen.epochs if self.max_iter is None else int(self.max_iter)
        seed = choose_generator(self.random_state)
        return replace(chosen, epochs=epochs, random_state=seed)

    def _problem(
        self,
        blocks: ChainBlocks,
        starts: np.ndarray,
        target: np.ndarray,
        n_labels: int,
        weight: np.ndarray,
    ) -> ChainProblem:
        regularizer: Any = self.regularizer
        if isinstance(regularizer, str):
            regularizer = REGULARIZERS[regularizer]()
        return ChainProblem(
            blocks,
            starts,
            target,
            n_labels,
            chain_loss(self.loss, self.cost, n_labels),
            chain_terms(regularizer, blocks.n_blocks, self.transitions),
            float(self.C),
            weight,
            self.transitions != "none",
        )

    def _fit_kernels(self, table: Any) -> SequenceKernels:
        specs: list[Kernel] = as_kernels(self.kernels)
        if self.kernels is None and self._columns is not None:
            specs = [Linear()]
        names = None if self._columns is None else self._columns.names
        if self.groups is not None:
            specs = grouped_kernels(self.groups, specs, names)
        specs = approximate_kernels(specs, self.approximate, self.rank)
        return SequenceKernels.fit(
            specs,
            table,
            feature_names=names,
            dtype=self.dtype,
            psd=self.psd,
            random_state=choose_generator(self.random_state),
        )

    def _read_training(self, X: Any, y: Any) -> tuple[Positions, np.ndarray]:
        positions, columns = read_sequences(X, None, None, self.window)
        labels = read_labels(y, positions)
        self._columns = columns
        self.n_features_in_ = int(positions.table.shape[1])
        return positions, labels

    def _read(self, X: Any) -> Positions:
        check_is_fitted(self, "classes_")
        return read_sequences(X, self._columns, self.n_features_in_)[0]

    def _compare(self, X: Any, y: Any) -> tuple[np.ndarray, Positions]:
        positions = self._read(X)
        labels = read_labels(y, positions)
        if not positions.n_sequences:
            raise ValueError("X must hold a sequence to score, got none; pass some.")
        return self.classes_[self._decode(positions)] == labels, positions

    def _decode(self, positions: Positions) -> np.ndarray:
        """The best labels of all positions, by their places in `classes_`."""
        scores = self._model.scores(positions.table)
        return viterbi(scores, self.transitions_, positions.starts)
