"""Dependency parsing with learned feature templates."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from manykernels.base.machine import parse_bytes
from manykernels.base.stored import Floats, ListOf, Maybe, Part, Real, require_all
from manykernels.files import Saved
from manykernels.inputs import parameters
from manykernels.inputs.reporting import progress_callback
from manykernels.inputs.wrappers import rollback_on_error
from manykernels.norms.regularizers import REGULARIZERS, named_regularizer
from manykernels.norms.terms import Term
from manykernels.structured.arc_labeler import ArcLabeler
from manykernels.structured.conllu import Sentence
from manykernels.structured.feature_templates import (
    ARC_TEMPLATES,
    LABEL_TEMPLATES,
    FeatureTemplate,
    templates_for_loss,
)
from manykernels.structured.online_proximal import OnlineProximal, StructuredResult
from manykernels.structured.parsing import ParserPredictions
from manykernels.structured.structured_problem import CRF, StructuredHinge
from manykernels.structured.tree_learning import (
    TreeEpoch,
    TreeProblem,
    TreeState,
    require_template_norms,
)
from manykernels.structured.tree_model import PackedWeights, TemplateLayout, TreeModel
from manykernels.structured.treebank import check_treebank

PARSER_RULES: parameters.Rules = {
    "loss": parameters.OneOf("hinge", "crf"),
    "regularizer": parameters.OneOf(None, *REGULARIZERS, method="terms"),
    "C": parameters.Number(largest=parameters.LARGEST_PENALTY),
    "solver": parameters.OneOf(None, method="solve"),
    "n_epochs": parameters.Whole(example=12),
    "refit": parameters.Flag(),
    "n_templates": parameters.Whole(optional=True),
    "selection_epochs": parameters.Whole(example=2),
    "single_root": parameters.Flag(),
    "prune_arcs": parameters.Flag(),
    "min_count": parameters.Whole(example=1),
}


class DependencyParser(ParserPredictions, Saved, BaseEstimator):
    r"""Head and relation of every word: the tree with the largest sum of scores.

    .. math:: \min_w \lambda\,\Omega(w) + \frac1N \sum_i \max_y\,
        [s_w(x_i, y) - s_w(x_i, y_i) + \mathrm{cost}(y, y_i)],
        \qquad \lambda = \frac{1}{C N}

    Each feature template is a group of weights with a table of its own. A penalty on
    the norms of the groups decides which templates are worth keeping. Relations are
    found in a second step, by a multiclass model on the arcs of the tree.

    Parameters
    ----------
    templates : "standard", "full" or list of str
        169 templates, the 507 of the SPOM paper, or texts such as "h.upos m.form
        distance".
    label_templates : "standard", None or list of str
        Features of relations, as texts such as "h.lemma children.lemma"; None leaves
        relations alone, as do training sentences without any.
    loss : "hinge" or "crf"
        Structured hinge loss with Hamming cost, or minus the log-likelihood, for which
        templates look at no third word.
    regularizer : None, str or regularizer
        On the norms of the templates' weights: "sparse_mkl", which is 1/2 (sum of
        norms)^2, "group_lasso", "elastic_net", "squared_l2", "squared_p", "power", or
        any of :mod:`manykernels.norms` but those of single weights. The first three
        prune templates.
    C : float
        Weight of the losses against the regularizer.
    solver : OnlineProximal, optional
        How to learn: the sort and the length of steps, and averaging; see
        :class:`manykernels.structured.OnlineProximal`. Its epochs and its random state
        are not used.
    n_epochs : int
        Passes over the sentences; the model is the mean of the second half of them.
    refit : bool
        Learn twice: with the regularizer, which chooses templates, and then without it
        from these alone, as penalties make the weights of good templates too small.
    n_templates : int, optional
        Keep this many templates at most for the second fit, the strongest; by default
        all that the regularizer leaves.
    selection_epochs : int
        Passes over the sentences of the first of two fits.
    single_root : bool
        Exactly one word of a sentence hangs on the root.
    prune_arcs : bool
        Leave out arcs longer than any in training between the same two tags, which
        nearly halves the time.
    min_count : int
        Words and lemmas that occur less often are treated as unknown.
    memory_limit : int or str
        Of the weights while they are learned; more means fewer collisions.
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
    template_history_ : array (epochs, templates)
        Norm of each template's weights after every epoch.
    relations_ : list of str
        The relations that are learned; empty if none were learned.
    untagged_score_ : float or None
        Share of right heads in some of the training sentences without their tags, which
        `predict` quotes where tags are missing; None if training has no tags, and after
        `partial_fit` alone.
    n_features_ : int
        Weights of arcs that are not zero.
    history_ : list of TreeEpoch
        Time, mean loss, accuracy and templates in use, per epoch.
    selection_history_ : list of TreeEpoch
        The same for the first of two fits; empty if there was one.
    n_iter_ : int

    Examples
    --------
    >>> from manykernels.structured import Sentence
    >>> tags, relations = ["DET", "NOUN", "VERB"], ["det", "nsubj", "root"]
    >>> dog, dogs = ["the", "dog", "barks"], ["dogs", "bark"]
    >>> train = [
    ...     Sentence.of(dog, tags, heads=[2, 3, 0], deprels=relations),
    ...     Sentence.of(dogs, tags[1:], heads=[2, 0], deprels=relations[1:]),
    ... ]
    >>> parser = DependencyParser(n_epochs=3, random_state=0, memory_limit="10MB")
    >>> found = parser.fit(train).predict([Sentence.of(["a", "cat", "sleeps"], tags)])
    >>> found[0].heads, found[0].deprels
    ((2, 3, 0), ('det', 'nsubj', 'root'))
    """

    input_kind = "sentences"
    _rules = PARSER_RULES
    _stored = {
        "_layout": Part(TemplateLayout),
        "_packed": Part(PackedWeights),
        "_labeler": Maybe(Part(ArcLabeler)),
        "history_": ListOf(Part(TreeEpoch)),
        "selection_history_": ListOf(Part(TreeEpoch)),
        "template_history_": Floats("epochs", "templates", low=0.0),
        "untagged_score_": Maybe(Real(0.0, 1.0)),
    }
    _state: TreeState | None
    history_: list[TreeEpoch]
    selection_history_: list[TreeEpoch]

    def __init__(
        self,
        templates: Any = "standard",
        *,
        label_templates: Any = "standard",
        loss: str = "hinge",
        regularizer: Any = None,
        C: float = 1.0,
        solver: OnlineProximal | None = None,
        n_epochs: int = 12,
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
        self.label_templates = label_templates
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

    @rollback_on_error
    def fit(self, sentences: Any, y: Any = None) -> DependencyParser:
        """Learn from sentences with heads, and with relations if they have any.

        Parameters
        ----------
        sentences : list of Sentence
            See :func:`manykernels.structured.read_conllu`.
        y : None
            Ignored: sentences hold their trees.
        """
        self._check_parameters()
        treebank = check_treebank(sentences, self.single_root)
        layout, seed = self._lay_out(treebank), self._seed()
        first_epochs = self.selection_epochs if self.refit else self.n_epochs
        result = self._solve(layout, treebank, seed, first_epochs)
        selection: list[TreeEpoch] = []
        if self.refit and not result.stopped:  # one that is stopped is the model
            selection = result.history
            layout = self._strongest(layout, result)
            del result  # as large as the one to come
            result = self._solve(layout, treebank, seed, self.n_epochs, plain=True)
        self.history_, self.selection_history_ = result.history, selection
        self.template_history_ = np.array(result.progress.norm_history)
        self._store(TreeModel(layout, result.weights, result.block_norms))
        self._state = None  # as large as the model itself
        del result
        self.untagged_score_ = self._model.untagged_score(treebank, self.single_root)
        self._labeler = self._empty_labeler(layout, treebank)
        self._learn_relations(treebank, self.n_epochs, seed)
        return self

    @rollback_on_error
    def partial_fit(self, sentences: Any, y: Any = None) -> DependencyParser:
        """One more pass, over these sentences.

        The first call decides which words, tags and relations are known. Dual averaging
        needs all gradients: after `fit`, or `load`, gradient steps are taken instead.

        Parameters
        ----------
        sentences : list of Sentence
        y : None
            Ignored.
        """
        self._check_parameters()
        treebank = check_treebank(sentences, self.single_root)
        if not hasattr(self, "templates_"):
            if self.refit:
                raise ValueError(
                    "partial_fit goes over the sentences once and cannot choose "
                    "templates first, got refit=True; call fit before it."
                )
            layout = self._lay_out(treebank)
            self._state = TreeState(layout.compiled)
            self.history_, self.selection_history_ = [], []
            self.untagged_score_ = None
            self.template_history_ = np.empty((0, len(layout.templates)))
            self._labeler = self._empty_labeler(layout, treebank)
        else:
            layout = self._model.layout
        if self._state is None:
            self._state = TreeState(layout.compiled, self._model.weights)
        if self.prune_arcs:
            layout.widen(treebank)
        seed = self._seed()
        result = self._solve(layout, treebank, seed, 1, self.refit, self._state)
        done = len(self.history_) + 1
        lines = enumerate(result.history, done)
        self.history_ = self.history_ + [x._replace(epoch=k) for k, x in lines]
        norms = result.progress.norm_history[-1]
        self.template_history_ = np.vstack([self.template_history_, norms])
        self._store(TreeModel(layout, result.weights, result.block_norms))
        self._learn_relations(treebank, 1, seed)
        return self

    def compressed(self, keep: float = 0.25, half: bool = True) -> DependencyParser:
        """Return a copy with fewer and shorter weights, whose file is small.

        Score it on sentences of your own before you trust it; `save` then keeps it as
        it is.

        Parameters
        ----------
        keep : float
            Share of the weights that is kept, the largest ones.
        half : bool
            Round weights to half precision, which takes two bytes instead of four.
        """
        check_is_fitted(self, "templates_")
        parameters.Number(high=1.0).check("keep", keep)
        parameters.Flag().check("half", half)
        small = copy(self)
        small._state = None
        small._store(self._model.compressed(keep, half))
        if self._labeler is not None:
            small._labeler = self._labeler.compressed(keep, half)
        return small

    def _solve(
        self,
        layout: TemplateLayout,
        sentences: Sequence[Sentence],
        seed: int,
        n_epochs: int,
        plain: bool = False,
        state: TreeState | None = None,
    ) -> StructuredResult:
        """One run of the learner; `plain`: no regularizer, by default steps."""
        solver = OnlineProximal() if self.solver is None else self.solver
        if solver.eta0 == "auto":
            raise ValueError(
                "eta0 of a parser's solver must be a number or None, got 'auto', which "
                "compares objectives of sequences; choose for instance 1.0."
            )
        problem = TreeProblem(
            layout.vocabulary.encode(sentences),
            layout.compiled,
            CRF() if self.loss == "crf" else StructuredHinge(),
            () if plain else self._terms(),
            self.C,
            bool(self.single_root),
        )
        solver = replace(solver, update="auto" if plain else solver.update)
        solver = solver.resolved(problem)
        if solver.sums and state is not None and state.from_weights:
            solver = replace(solver, update="gradient")
        # Calls of partial_fit draw other orders each, and the same in every run.
        rng = np.random.default_rng([seed, 0 if state is None else state.n_steps])
        solver = replace(solver, epochs=n_epochs, random_state=rng)
        callback = progress_callback(self.verbose, None, self.callback)
        return solver.solve(problem, state, callback)

    def _strongest(
        self, layout: TemplateLayout, result: StructuredResult
    ) -> TemplateLayout:
        """The templates that the first of two fits has left, at most `n_templates`."""
        first = TreeModel(layout, result.weights, result.block_norms)
        kept = first.strongest[: self.n_templates]
        if not kept:
            raise ValueError(
                "expected a regularizer that leaves some templates, got none with "
                f"C={self.C!r}; raise C."
            )
        return layout.take(kept, parse_bytes(self.memory_limit))

    def _check_parameters(self) -> None:
        """Refuse parameters that no fit can follow, alone or together."""
        parameters.check_parameters(self, self._rules)
        require_template_norms(self._terms(), len(self._templates()))
        if self.label_templates is not None:
            LABEL_TEMPLATES.read(self.label_templates)
        if self.n_templates is not None and not self.refit:
            raise ValueError(
                "n_templates needs a second fit of the templates that are kept, got "
                "refit=False; pass refit=True."
            )
        prunes = any(term.prunes for term in self._terms())
        if self.refit and not (prunes or self.n_templates is not None):
            raise ValueError(
                "refit needs a regularizer that prunes templates, or n_templates, got "
                f"regularizer={self.regularizer!r}; pass regularizer='sparse_mkl'."
            )

    def _terms(self) -> tuple[Term, ...]:
        if self.regularizer is None:
            return ()
        return named_regularizer(self.regularizer).terms()

    def _templates(self) -> tuple[FeatureTemplate, ...]:
        templates = ARC_TEMPLATES.read(self.templates)
        return templates_for_loss(templates, self.templates, self.loss)

    def _seed(self) -> int:
        return int(parameters.draw_seed(self.random_state, 2**31))

    def _lay_out(self, sentences: Sequence[Sentence]) -> TemplateLayout:
        return TemplateLayout.fit(
            self._templates(),
            sentences,
            self.min_count,
            self.prune_arcs,
            parse_bytes(self.memory_limit),
        )

    def _empty_labeler(
        self, layout: TemplateLayout, sentences: Sequence[Sentence]
    ) -> ArcLabeler | None:
        # In the memory that the learning of arcs has freed.
        if self.label_templates is None or not any(s.has_relations for s in sentences):
            return None
        limit = parse_bytes(self.memory_limit) // 2
        corpus = layout.vocabulary.encode(sentences)
        templates = LABEL_TEMPLATES.read(self.label_templates)
        return ArcLabeler.empty(templates, sentences, corpus, limit)

    def _learn_relations(
        self, sentences: Sequence[Sentence], n_epochs: int, seed: int
    ) -> None:
        if self._labeler is not None:
            corpus = self._model.layout.vocabulary.encode(sentences)
            rng = np.random.default_rng([seed, len(self.history_)])
            self._labeler = self._labeler.learned(sentences, corpus, n_epochs, rng)
        self._set_relations()

    def _set_relations(self) -> None:
        self.relations_ = [] if self._labeler is None else list(self._labeler.relations)

    def _store(self, model: TreeModel) -> None:
        """Keep the weights, and what follows for the templates."""
        self._model = model
        self.templates_, self.template_weights_ = model.names, model.norms
        self.selected_templates_ = model.strongest
        self.n_features_ = int(np.count_nonzero(model.weights))
        self.n_iter_ = len(self.history_)

    def _fitted_values(self) -> dict[str, Any]:
        packed = PackedWeights.of(self._model.weights)
        model = {"_layout": self._model.layout, "_packed": packed}
        return super()._fitted_values() | model

    def _restored(self) -> None:
        layout, packed = (self.__dict__.pop(name) for name in ("_layout", "_packed"))
        n_templates = len(layout.templates)
        require_all(
            "DependencyParser",
            {
                "tables": packed.size == int(layout.compiled.start[-1]),
                "history": self.template_history_.shape
                == (len(self.history_), n_templates),
            },
        )
        self._state = None
        self.__dict__.setdefault("untagged_score_", None)
        self._store(TreeModel.of(layout, packed.weights()))
        self._set_relations()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.target_tags.required = False
        return tags
