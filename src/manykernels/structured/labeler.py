"""Labels of sequences from multiple kernels on their positions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from manykernels.base import stored
from manykernels.base.machine import parse_bytes
from manykernels.base.stored import Maybe, Part, require_all
from manykernels.files import Saved, by_weight
from manykernels.inputs.parameters import (
    LARGEST_PENALTY,
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
from manykernels.inputs.wrappers import rollback_on_error
from manykernels.kernels import Kernel, approximate_kernels
from manykernels.norms.regularizers import REGULARIZERS, SquaredL2
from manykernels.structured.chain_learning import ChainEpoch
from manykernels.structured.labeling import LabelerPredictions
from manykernels.structured.online_proximal import OnlineProximal
from manykernels.structured.sequence_kernels import (
    SequenceKernels,
    edge_kernels,
    kept_kernels,
    label_kernels,
)
from manykernels.structured.sequence_model import (
    LearnedSequences,
    SequenceLearning,
    SequenceModel,
)
from manykernels.structured.sequences import (
    Positions,
    TokenColumns,
    known_labels,
    read_labels,
    read_sequences,
    read_weights,
    require_labels,
)
from manykernels.targets.labels import check_same_classes

LABELER_RULES: Rules = {
    "regularizer": OneOf(*REGULARIZERS, method="terms"),
    "C": Number(largest=LARGEST_PENALTY),
    "refit_C": Number(largest=LARGEST_PENALTY, optional=True),
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


class SequenceLabeler(LabelerPredictions, Saved, BaseEstimator):
    r"""Label every position of a sequence; learn the weight of every kernel on the way.

    A sequence of labels scores :math:`\sum_t s(x_t)_{y_t} + \sum_t
    (T + e(x_t))_{y_{t-1}, y_t}` with s from all kernels, and e from those of `edges`.
    Minimizes :math:`\lambda \Omega(w)` plus the mean loss of the sequences with SPOM,
    an online proximal method.

    Parameters
    ----------
    kernels : None, str, Kernel or list of these
        Kernels on the features of a position, see :mod:`manykernels.kernels`. Linear
        and approximate ones work on explicit features, also sparse; compact ones on
        sparse matrices. None takes a linear kernel for each attribute of token dicts
        (for all together if there are more than 200), and otherwise a linear, a
        quadratic and three Gaussian ones.
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
    edges : str, Kernel, list of these or dict, optional
        Features that score a label together with the one before: linear or approximate
        kernels, or groups of token attributes as above. Each is one more block, whose
        weight competes with the kernels'; memory grows with the square of the labels.
    refit_C : float, optional
        Learn twice: first by dual averaging, which drops kernels, and then with this C
        and "squared_l2" from those that are left. None learns once.
    max_iter : int, optional
        Epochs; those of the solver, 20, if not given.
    solver : OnlineProximal, optional
        How to learn: the size of steps and how they fall, averaging, projection; see
        :class:`manykernels.structured.OnlineProximal`. Its random state is not used.
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
        beta of the kernel sum_f beta_f K_f that was learned, divided by their sum: the
        norms of the kernels' parts to the power 2 - q for a q-norm, all alike for
        "squared_l2".
    kernel_norms_ : array of shape (n_kernels,)
        Norms of the kernels' parts.
    kernel_names_ : list of str
    edge_weights_ : array of shape (n_edges,)
        The same for `edges`, divided by the sum of the kernels'.
    edge_names_ : list of str
    dropped_kernels_ : list of str
        Kernels and edges that the first of two fits has dropped, with `refit_C`.
    transitions_ : array of shape (n_labels, n_labels)
        Score of each label (column) after another (row).
    transition_weight_ : float
        The beta of the transitions, divided by the sum of the kernels'.
    objective_ : float
        Of the chosen model on the training sequences.
    history_ : list of ChainEpoch
        epoch, time, objective, mean loss met on the way, updates.
    selection_history_ : list of ChainEpoch
        The same of the first of two fits, where kernels were selected by one.
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
    _rules = LABELER_RULES
    _stored = {
        "classes_": stored.ClassLabels("labels"),
        "_model": Part(SequenceModel),
        "_columns": Maybe(Part(TokenColumns)),
        "kernel_weights_": stored.Floats("kernels", low=0.0),
        "kernel_norms_": stored.Floats("kernels", low=0.0),
        "edge_weights_": stored.Floats("edges", low=0.0),
        "transition_weight_": stored.Real(low=0.0),
        "dropped_kernels_": stored.ListOf(Part(str)),
        "selection_history_": stored.ListOf(Part(ChainEpoch)),
        "objective_": stored.Real(nan=True),
        "eta0_": stored.Real(low=0.0),
        "history_": stored.ListOf(Part(ChainEpoch)),
        "n_features_in_": stored.Count(),
    }
    dropped_kernels_: list[str]
    selection_history_: list[ChainEpoch]
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
        edges: Any = None,
        refit_C: float | None = None,
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
        self.edges = edges
        self.refit_C = refit_C
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

    @rollback_on_error
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
        positions, labels = self._read_training(X, y)
        self.classes_ = require_labels(labels)
        weight = read_weights(sample_weight, positions.n_sequences)
        target = known_labels(labels, self.classes_)
        self.dropped_kernels_, self.selection_history_ = [], []
        callback = progress_callback(self.verbose, None, self.callback)
        specs, edges = self._specs()
        kernels = self._fit_kernels(specs, edges, positions.table)
        learning = self._learning()
        if self.refit_C is not None:
            # Dual averaging prunes; what it leaves is learned again, all alike.
            method = replace(learning.method, update="dual_averaging")
            first = replace(learning, method=method).fit(
                kernels, positions, target, weight, callback
            )
            specs, edges, dropped = kept_kernels(specs, edges, first.norms)
            self.dropped_kernels_, self.selection_history_ = dropped, first.history
            kernels = self._fit_kernels(specs, edges, positions.table)
            learning = replace(
                self._learning(), regularizer=SquaredL2(), C=float(self.refit_C)
            )
            method = replace(learning.method, update="gradient")
            learning = replace(learning, method=method)
        learned = learning.fit(kernels, positions, target, weight, callback)
        return self._store(learned, learned.history)

    @rollback_on_error
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
            given = labels if classes is None else np.asarray(classes)
            self.classes_ = require_labels(given)
        else:
            positions = self._read(X)
            labels = read_labels(y, positions)
            check_same_classes(classes, self.classes_)
        target, learning = known_labels(labels, self.classes_), self._learning()
        if learning.method.eta0 == "auto":
            raise ValueError(
                "eta0 must be a number for partial_fit, got 'auto', which needs more "
                "than one epoch; choose for instance 0.1."
            )
        if past is None:
            kernels, past = self._empty_model(positions, learning.method)
        else:
            kernels = past.kernels.extend(positions.table)
        rng = choose_generator(self.random_state)
        learned = learning.one_pass(past, kernels, positions, target, rng)
        history = list(getattr(self, "history_", []))
        history.append(learned.history[0]._replace(epoch=len(history) + 1))
        return self._store(learned, history)

    def _empty_model(
        self, positions: Positions, method: OnlineProximal
    ) -> tuple[SequenceKernels, SequenceModel]:
        """Fitted kernels, and a model of no positions, where `partial_fit` begins."""
        if self.refit_C is not None:
            raise ValueError(
                "partial_fit goes on with the kernels that a fit has chosen, got "
                f"refit_C={self.refit_C!r} and no fit; call fit before it."
            )
        kernels = self._fit_kernels(*self._specs(), positions.table)
        self.dropped_kernels_, self.selection_history_ = [], []
        return kernels, SequenceModel.empty(
            kernels, bool(method.average), method.sums, len(self.classes_)
        )

    def _store(
        self, learned: LearnedSequences, history: list[ChainEpoch]
    ) -> SequenceLabeler:
        self._model = learned.model
        n_kernels = len(learned.model.kernels.names)
        total = float(learned.betas[:n_kernels].sum()) or 1.0
        shares = learned.betas / total
        self.kernel_weights_ = shares[:n_kernels]
        self.edge_weights_ = shares[n_kernels:-1]
        self.transition_weight_ = float(shares[-1])
        self.kernel_norms_ = learned.norms[:n_kernels]
        self.objective_, self.eta0_ = learned.objective, learned.eta0
        self.history_ = history
        self._show_model()
        return self

    def _show_model(self) -> None:
        """Attributes that follow from others."""
        self.kernel_names_ = list(self._model.kernels.names)
        self.edge_names_ = list(self._model.kernels.edge_names)
        self.transitions_ = self._model.weights.pairs
        self.n_iter_ = len(self.history_)
        for name in ("feature_names_in_", "token_attributes_"):
            self.__dict__.pop(name, None)
        if self._columns is not None:
            self.feature_names_in_ = np.array(self._columns.names, dtype=object)
            self.token_attributes_ = self._columns.attributes

    def _restored(self) -> None:
        kernels, columns = self._model.kernels, self._columns
        parts = [kernels.dense, kernels.sparse, kernels.explicit, kernels.edges]
        sets = [part for part in parts if part is not None]
        widths = {part.n_columns for part in sets}
        require_all(
            "SequenceLabeler",
            {
                "labels": len(self.classes_) == len(self._model.weights.pairs),
                "kernels": len(self.kernel_weights_) == len(kernels.names),
                "edges": len(self.edge_weights_) == len(kernels.edge_names),
                "columns": widths == {self.n_features_in_},
                "tokens": columns is None or {len(columns.names)} == widths,
            },
        )
        rows = [part.blank_row() for part in sets]
        can_score = all(row is not None for row in rows)
        if can_score and not np.isfinite(self._model.unary(rows[0])).all():
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
            "edges": by_weight(self.edge_names_, self.edge_weights_) or None,
            "transition_weight": self.transition_weight_,
            "objective": self.objective_,
            "epochs": self.n_iter_,
        }

    def _learning(self) -> SequenceLearning:
        method = OnlineProximal() if self.solver is None else self.solver
        epochs = method.epochs if self.max_iter is None else int(self.max_iter)
        seed = choose_generator(self.random_state)
        return SequenceLearning(
            self.regularizer,
            float(self.C),
            self.loss,
            self.cost,
            self.transitions,
            replace(method, epochs=epochs, random_state=seed),
            self.memory_limit,
            len(self.classes_),
        )

    def _specs(self) -> tuple[list[Kernel], list[Kernel]]:
        """Kernels on labels and on pairs of labels, before they are fitted."""
        names = None if self._columns is None else self._columns.names
        specs = (
            label_kernels(self.kernels, self.groups, names),
            edge_kernels(self.edges, names),
        )
        kernels, edges = (
            approximate_kernels(part, self.approximate, self.rank) for part in specs
        )
        return kernels, edges

    def _fit_kernels(
        self, specs: list[Kernel], edges: list[Kernel], table: Any
    ) -> SequenceKernels:
        return SequenceKernels.fit(
            specs,
            edges,
            table,
            feature_names=None if self._columns is None else self._columns.names,
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
