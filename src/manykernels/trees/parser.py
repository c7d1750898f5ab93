"""Dependency parsing with learned feature templates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from manykernels.base.machine import parse_bytes, require_memory
from manykernels.base.stored import Floats, ListOf, Part, Wholes, require_all
from manykernels.files import Saved, by_weight
from manykernels.hot import trees as hot
from manykernels.inputs import parameters
from manykernels.inputs.reporting import progress_callback
from manykernels.inputs.whole import whole_or_nothing
from manykernels.trees.conllu import ParsingScore, Sentence, format_conllu
from manykernels.trees.inputs import (
    Layout,
    check_sentences,
    check_treebank,
)
from manykernels.trees.learning import (
    PRUNING,
    TreeEpoch,
    TreeLearning,
    TreeRule,
    TreeState,
    learn_trees,
    template_norms,
)
from manykernels.trees.templates import arc_templates

RULES: parameters.Rules = {
    "loss": parameters.OneOf("hinge", "crf"),
    "regularizer": parameters.OneOf(None, "squared_l2", "group_lasso", "sparse_mkl"),
    "C": parameters.Number(largest=parameters.MODERATE),
    "solver": parameters.OneOf(None, method="rule"),
    "n_epochs": parameters.Whole(example=8),
    "refit": parameters.Flag(),
    "n_templates": parameters.Whole(optional=True),
    "selection_epochs": parameters.Whole(example=2),
    "single_root": parameters.Flag(),
    "prune_arcs": parameters.Flag(),
    "min_count": parameters.Whole(example=1),
}


class DependencyParser(Saved, BaseEstimator):
    r"""Head of every word: the tree with the largest sum of arc scores.

    .. math:: \min_w \lambda\,\Omega(w) + \frac1N \sum_i \max_y\,
        [s_w(x_i, y) - s_w(x_i, y_i) + \mathrm{cost}(y, y_i)],
        \qquad \lambda = \frac{1}{C N}

    Each feature template is a group of weights with a table of its own. A penalty on
    the norms of the groups decides which templates are worth keeping.

    Parameters
    ----------
    templates : "standard", "full" or list of str
        116 templates, 507 templates, or texts such as "h.upos m.form distance".
    loss : "hinge" or "crf"
        Structured hinge loss with Hamming cost, or minus the log-likelihood.
    regularizer : None, "squared_l2", "group_lasso" or "sparse_mkl"
        The last two prune templates; the last is 1/2 (sum of norms)^2, as in MKL.
    C : float
        Weight of the losses against the regularizer.
    solver : TreeLearning, optional
        How to learn: the sort and the length of steps, and averaging; see
        :class:`manykernels.trees.TreeLearning`.
    n_epochs : int
        Passes over the sentences.
    refit : bool
        Learn twice: with the regularizer, to find out which templates matter, and then
        without it from these templates alone. Penalties make the weights of good
        templates too small as well; the second fit mends that.
    n_templates : int, optional
        Keep this many templates at most for the second fit, the strongest; by default
        all that the regularizer leaves.
    selection_epochs : int
        Passes over the sentences of the first of two fits.
    single_root : bool
        Exactly one word of a sentence hangs on the root.
    prune_arcs : bool
        Leave out arcs longer than any seen between the same two tags, which takes
        nearly half of the time away.
    min_count : int
        Words and lemmas seen less often are treated as unknown.
    memory_limit : int or str
        Memory for the weights while they are learned; more means fewer collisions.
    random_state : int, RandomState or None
        Order of the sentences.
    verbose : int
        Print a line per epoch.
    callback : callable, optional
        Called with each line of the history; a true value ends the fit.

    Attributes
    ----------
    templates_ : list of str
        All templates, in the given order; with `refit`, those that were kept.
    template_weights_ : array
        Norm of each template's weights, in the order of `templates_`.
    selected_templates_ : list of str
        Templates with weights other than zero, strongest first.
    n_features_ : int
        Weights that are not zero.
    history_ : list of TreeEpoch
        Time, mean loss, accuracy and templates in use, per epoch.
    selection_history_ : list of TreeEpoch
        The same for the first of two fits; empty if there was one.
    n_iter_ : int
        Epochs of the fit.

    Examples
    --------
    >>> from manykernels.trees import Sentence
    >>> tags = ["DET", "NOUN", "VERB"]
    >>> train = [
    ...     Sentence.of(["the", "dog", "barks"], tags, heads=[2, 3, 0]),
    ...     Sentence.of(["dogs", "bark"], tags[1:], heads=[2, 0]),
    ... ]
    >>> parser = DependencyParser(n_epochs=3, random_state=0, memory_limit="10MB")
    >>> parser.fit(train).predict([Sentence.of(["a", "cat", "sleeps"], tags)])
    [array([2, 3, 0])]
    """

    input_kind = "sentences"
    _rules = RULES
    _stored = {
        "_layout": Part(Layout),
        "_places": Wholes("weights", low=0),  # of the weights that are not zero
        "_values": Floats("weights"),
        "history_": ListOf(Part(TreeEpoch)),
        "selection_history_": ListOf(Part(TreeEpoch)),
    }
    _state: TreeState | None
    _layout: Layout
    history_: list[TreeEpoch]
    selection_history_: list[TreeEpoch]

    def __init__(
        self,
        templates: Any = "standard",
        *,
        loss: str = "hinge",
        regularizer: str | None = None,
        C: float = 1.0,
        solver: TreeLearning | None = None,
        n_epochs: int = 8,
        refit: bool = False,
        n_templates: int | None = None,
        selection_epochs: int = 2,
        single_root: bool = True,
        prune_arcs: bool = True,
        min_count: int = 1,
        memory_limit: int | float | str = "400MB",
        random_state: Any = None,
        verbose: int = 0,
        callback: Any = None,
    ) -> None:
        self.templates = templates
        self.loss = loss
        self.regularizer = regularizer
        self.C = C
        self.solver = solver
        self.n_epochs = n_epochs
        self.refit = refit
        self.n_templates = n_templates
        self.selection_epochs = selection_epochs
        self.single_root = single_root
        self.prune_arcs = prune_arcs
        self.min_count = min_count
        self.memory_limit = memory_limit
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    @whole_or_nothing
    def fit(self, sentences: Any, y: Any = None) -> DependencyParser:
        """Learn from sentences with heads.

        Parameters
        ----------
        sentences : list of Sentence
            See :func:`manykernels.trees.read_conllu`.
        y : None
            Ignored: sentences know their heads.
        """
        self._check_parameters()
        found = check_treebank(sentences, self.single_root)
        layout = self._lay_out(found)
        if self.refit:
            self._learn_in_two_fits(layout, found)
        else:
            self.selection_history_ = []
            epochs = self.n_epochs
            self.history_, _ = self._learn_from_zero(layout, found, epochs, False)
        self.n_iter_ = len(self.history_)
        return self

    @whole_or_nothing
    def partial_fit(self, sentences: Any, y: Any = None) -> DependencyParser:
        """One more pass, over these sentences.

        The first call decides which words and tags are known. Dual averaging needs all
        gradients: after `fit`, or `load`, gradient steps are taken instead.

        Parameters
        ----------
        sentences : list of Sentence
        y : None
            Ignored.
        """
        self._check_parameters()
        found = check_treebank(sentences, self.single_root)
        if not hasattr(self, "templates_"):
            self._require_one_fit()
            self._layout = self._lay_out(found)
            self._state = TreeState(self._layout.compiled)
            self.history_, self.selection_history_ = [], []
        if self._state is None:
            self._state = TreeState(self._layout.compiled, self._weights)
        if self.prune_arcs:
            self._layout.widen(found)
        lines, _ = self._learn(self._state, self._layout, found, 1, self.refit)
        done = len(self.history_) + 1
        self.history_ += [x._replace(epoch=k) for k, x in enumerate(lines, done)]
        self._store(self._layout, self._state)
        self.n_iter_ = len(self.history_)
        return self

    def predict(self, sentences: Any) -> list[np.ndarray]:
        """The head of every word: 0 for the root, 1 for the first word.

        Parameters
        ----------
        sentences : list of Sentence
            Their heads are not looked at.

        Returns
        -------
        list of arrays
            One entry per word.
        """
        check_is_fitted(self, "templates_")
        found = check_sentences(sentences)
        in_use = self.template_weights_ > 0.0
        return self._layout.best_heads(
            self._weights, in_use, found, bool(self.single_root)
        )

    def parse(self, sentences: Any) -> list[Sentence]:
        """The sentences with predicted heads; relations are left open."""
        found = check_sentences(sentences)
        return [
            replace(s, heads=tuple(heads.tolist()), deprels=("_",) * len(s))
            for s, heads in zip(found, self.predict(found), strict=True)
        ]

    def predict_conllu(self, sentences: Any) -> str:
        """The sentences with predicted heads as CoNLL-U text."""
        return format_conllu(self.parse(sentences))

    def arc_scores(self, sentence: Sentence) -> np.ndarray:
        """scores[h, m] of every arc of a sentence; minus infinity for those left out.

        The array has a row and a column for the root, and then one for each word.
        """
        check_is_fitted(self, "templates_")
        corpus = self._layout.vocabulary.encode(check_sentences([sentence]))
        in_use = (self.template_weights_ > 0.0).astype(float)
        scores = hot.arc_scores(corpus, self._layout.compiled, self._weights, in_use, 0)
        return np.asarray(scores, dtype=np.float64)

    def score(
        self, sentences: Any, y: Any = None, *, punctuation: bool = True
    ) -> float:
        """Unlabeled attachment score: the share of words with the right head.

        Parameters
        ----------
        sentences : list of Sentence
        y : None
            Ignored.
        punctuation : bool
            Whether words with the tag PUNCT count.
        """
        result = self.evaluate(sentences)
        return result.uas if punctuation else result.uas_without_punctuation

    def evaluate(self, sentences: Any) -> ParsingScore:
        """Attachment scores with and without punctuation, and whole sentences."""
        found = check_sentences(sentences, heads=True)
        return ParsingScore.of(found, self.predict(found))

    def _require_fitted(self) -> None:
        check_is_fitted(self, "templates_")

    def _fitted_values(self) -> dict[str, Any]:
        places = np.flatnonzero(self._weights)
        sparse = {"_places": places, "_values": self._weights[places]}
        return super()._fitted_values() | sparse

    def _restored(self) -> None:
        places, values = (self.__dict__.pop(name) for name in ("_places", "_values"))
        size = int(self._layout.compiled.start[-1])
        require_all(
            "DependencyParser",
            {
                "places": np.all(places[:-1] < places[1:]),
                "tables": not len(places) or places[-1] < size,
            },
        )
        require_memory(4 * size, None, "reading the weights of a parser")
        self._weights = np.zeros(size, np.float32)
        self._weights[places] = values
        self._state = None
        self.n_iter_ = len(self.history_)
        self._set_templates()

    def _facts(self) -> dict[str, Any]:
        words, lemmas, *tags = self._layout.vocabulary.values
        return {
            "words": len(words),
            "lemmas": len(lemmas),
            "tags": max(len(values) for values in tags),
            "weights": self.n_features_,
            "templates": by_weight(self.templates_, self.template_weights_),
            "epochs": self.n_iter_,
        }

    def _require_one_fit(self) -> None:
        if self.refit:
            raise ValueError(
                "partial_fit goes over the sentences once and cannot choose templates "
                "first, got refit=True; call fit before it."
            )

    def _check_parameters(self) -> None:
        """Refuse parameters that no fit can follow, alone or together."""
        parameters.check_parameters(self, self._rules)
        self._rule(1, False)
        if self.n_templates is not None and not self.refit:
            raise ValueError(
                "n_templates needs a second fit of the templates that are kept, got "
                "refit=False; pass refit=True."
            )
        prunes = self.n_templates is not None or self.regularizer in PRUNING
        if self.refit and not prunes:
            raise ValueError(
                "refit needs a regularizer that prunes templates, or n_templates, got "
                f"regularizer={self.regularizer!r}; pass regularizer='sparse_mkl'."
            )

    def _lay_out(self, sentences: Sequence[Sentence]) -> Layout:
        return Layout.fit(
            arc_templates(self.templates),
            sentences,
            self.min_count,
            self.prune_arcs,
            parse_bytes(self.memory_limit),
        )

    def _learn_in_two_fits(self, layout: Layout, sentences: Sequence[Sentence]) -> None:
        """Choose templates, then learn from them alone; a fit that is ended is last."""
        epochs = self.selection_epochs
        first, ended = self._learn_from_zero(layout, sentences, epochs, False)
        self.selection_history_, self.history_ = [], first
        if ended:
            return
        kept = self.selected_templates_[: self.n_templates]
        if not kept:
            raise ValueError(
                "expected a regularizer that leaves some templates, got none with "
                f"C={self.C!r}; raise C."
            )
        layout = layout.only(kept, parse_bytes(self.memory_limit))
        epochs = self.n_epochs
        second, _ = self._learn_from_zero(layout, sentences, epochs, True)
        self.selection_history_, self.history_ = first, second

    def _learn_from_zero(
        self,
        layout: Layout,
        sentences: Sequence[Sentence],
        n_epochs: int,
        plain: bool,
    ) -> tuple[list[TreeEpoch], bool]:
        state = TreeState(layout.compiled)
        found = self._learn(state, layout, sentences, n_epochs, plain)
        self._store(layout, state)
        self._state = None  # as large as the model itself
        return found

    def _learn(
        self,
        state: TreeState,
        layout: Layout,
        sentences: Sequence[Sentence],
        n_epochs: int,
        plain: bool,
    ) -> tuple[list[TreeEpoch], bool]:
        corpus = layout.vocabulary.encode(sentences)
        rule = self._rule(len(sentences), plain)
        if state.from_weights:
            rule = replace(rule, dual_averaging=False)
        seed = parameters.old_generator(self.random_state).randint(2**31)
        rng = np.random.default_rng([seed, state.rounds])
        callback = progress_callback(self.verbose, None, self.callback)
        return learn_trees(state, corpus, rule, n_epochs, rng, callback)

    def _rule(self, n_sentences: int, plain: bool) -> TreeRule:
        """How to learn; `plain`: without the regularizer, by the default steps."""
        solver = replace(self._solver, update="auto") if plain else self._solver
        penalty = None if plain else self.regularizer
        reg = 1.0 / (float(self.C) * n_sentences)
        return solver.rule(self.loss, penalty, reg, self.single_root)

    @property
    def _solver(self) -> TreeLearning:
        return TreeLearning() if self.solver is None else self.solver

    def _store(self, layout: Layout, state: TreeState) -> None:
        self._weights = state.average() if self._solver.average else state.last()
        self._layout = layout
        self._set_templates()

    def _set_templates(self) -> None:
        """What the weights say about the templates."""
        compiled = self._layout.compiled
        self.templates_ = [str(template) for template in self._layout.templates]
        self.template_weights_ = template_norms(compiled, self._weights)
        order = np.argsort(-self.template_weights_, kind="stable")
        self.selected_templates_ = [
            self.templates_[t] for t in order if self.template_weights_[t] > 0.0
        ]
        self.n_features_ = int(np.count_nonzero(self._weights))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.target_tags.required = False
        return tags
