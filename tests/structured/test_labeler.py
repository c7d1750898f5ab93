"""SequenceLabeler: what it learns, on what it works, what it refuses."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.feature_extraction import DictVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_score

import manykernels as mk
from manykernels import SequenceLabeler
from manykernels.files import ModelFileError
from manykernels.kernels import RBF, BSpline, Linear, Precomputed
from manykernels.kernels.kernel_set import KernelSet
from manykernels.norms import (
    ElasticNetMKL,
    OverlappingGroups,
    SparseGroupLasso,
    SquaredL2,
    SquaredPNorm,
    SumOf,
)
from manykernels.structured import ChainDecoder, OnlineProximal
from manykernels.structured.sequences import TokenColumns
from manykernels.structured.structured_problem import StructuredHinge

LABELS = np.array(["a", "b", "c"])


def words(
    n: int = 40, seed: int = 0, noise: float = 0.8
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Labels follow each other in turn; columns 0-2 show them, 3-5 are noise."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        length = int(rng.integers(2, 6))
        index = (rng.integers(3) + np.arange(length)) % 3
        shown = np.eye(3)[index] + noise * rng.normal(size=(length, 3))
        X.append(np.hstack([shown, rng.normal(size=(length, 3))]))
        y.append(LABELS[index])
    return X, y


def tokens(
    X: list[np.ndarray],
) -> list[list[dict[str, Any]]]:
    """The same as dicts: the largest shown column as text, one number."""
    return [
        [
            {"top": str(np.argmax(row[:3])), "size": float(row[3]), "flag": row[4] > 0}
            for row in sequence
        ]
        for sequence in X
    ]


MIXED = [Linear(columns=[0, 1, 2]), RBF(0.5), BSpline(1.5, columns=[0, 1])]


def mixed(**settings: Any) -> SequenceLabeler:
    defaults = {"kernels": MIXED, "psd": "skip", "random_state": 0, "max_iter": 10}
    return SequenceLabeler(**(defaults | settings))


def same(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.fixture(scope="module")
def data() -> tuple[list[np.ndarray], list[np.ndarray]]:
    return words()


def test_learns_labels_and_their_order(data: Any) -> None:
    X, y = data
    X_new, y_new = words(60, seed=1)
    model = mixed().fit(X, y)
    alone = mixed(transitions="none").fit(X, y)
    assert model.score(X_new, y_new) > alone.score(X_new, y_new) + 0.05
    assert model.score(X_new, y_new) > 0.85
    assert 0.0 < model.score(X_new, y_new, "sequences") <= model.score(X_new, y_new)
    assert not np.any(alone.transitions_)
    followers = model.transitions_.argmax(axis=1)
    assert followers.tolist() == [1, 2, 0]
    assert model.kernel_weights_.sum() == pytest.approx(1.0)
    labels = [kernel.label for kernel in MIXED]
    assert model.kernel_names_ == labels


def test_predictions_are_decoded_scores(data: Any) -> None:
    X, y = data
    model = mixed().fit(X, y)
    for sequence, scores in zip(
        model.predict(X), model.position_scores(X), strict=True
    ):
        decoded, _ = ChainDecoder(scores, model.transitions_).best()
        assert np.array_equal(sequence, model.classes_[decoded])


def test_scores_of_training_positions_are_those_of_the_solver(data: Any) -> None:
    """Every sort of block: the objective anew from predictions on the training data."""
    X, y = data
    model = mixed(dtype="float64", solver=OnlineProximal(average=True)).fit(X, y)
    losses = []
    for scores, labels in zip(model.position_scores(X), y, strict=True):
        target = np.searchsorted(model.classes_, labels)
        decoder = ChainDecoder(scores, model.transitions_)
        losses += StructuredHinge().values(decoder, target).tolist()
    assert np.mean(losses) < model.objective_
    assert model.objective_ - np.mean(losses) < 0.5


def test_forms_of_a_kernel_give_one_model(data: Any) -> None:
    """Linear as explicit features, and as a dense kernel that has no features."""
    X, y = data
    explicit = mixed(kernels=[Linear(normalize=None)], dtype="float64").fit(X, y)
    dense = mixed(
        kernels=[mk.kernels.Polynomial(1, 1.0, 0.0, normalize=None)], dtype="float64"
    ).fit(X, y)
    assert explicit._model.kernels.n_reference == 0
    assert dense._model.kernels.n_reference > 0
    for one, other in zip(
        explicit.position_scores(X), dense.position_scores(X), strict=True
    ):
        assert np.allclose(one, other)


def test_crf_gives_probabilities(data: Any) -> None:
    X, y = data
    X_new, y_new = words(60, seed=1)
    model = mixed(loss="crf", solver=OnlineProximal(eta0=1.0)).fit(X, y)
    chances = model.predict_marginals(X_new)
    assert all(np.allclose(part.sum(axis=1), 1.0) for part in chances)
    assert model.score(X_new, y_new) > 0.85
    flat = np.concatenate(chances)
    target = np.searchsorted(LABELS, np.concatenate(y_new))
    assert np.mean(np.log(flat[np.arange(len(target)), target])) > -np.log(2.0)
    with pytest.raises(ValueError, match="loss='crf'"):
        mixed().fit(X, y).predict_marginals(X)


def test_token_dicts_and_lists_of_attributes(data: Any) -> None:
    X, y = data
    X_new, y_new = words(60, seed=1)
    dicts = SequenceLabeler(random_state=0).fit(tokens(X), y)
    # Tokens tell the largest column only; the order of the labels has to add to that.
    top = np.concatenate([LABELS[x[:, :3].argmax(axis=1)] for x in X_new])
    guess = np.mean(top == np.concatenate(y_new))
    assert dicts.score(tokens(X_new), y_new) > guess + 0.05
    assert set(dicts.feature_names_in_) == {"top=0", "top=1", "top=2", "size", "flag"}
    # By name, each template a block of its own.
    blocks = SequenceLabeler(["linear@top*", "linear@size"], random_state=0)
    blocks.fit(tokens(X), y)
    assert blocks.kernel_weights_[0] > 0.85
    listed = [[[f"top{t['top']}"] for t in sequence] for sequence in tokens(X)]
    attributes = SequenceLabeler(random_state=0).fit(listed, y)
    assert attributes.score(listed, y) > 0.8
    unseen = [[{"top": "never", "other": 3.0}]]
    assert len(dicts.predict(unseen)[0]) == 1


STARRED = [
    [{"w[0]": "the", "+1:w": "*"}, {"w[0]": "*", "+1:w": "cat"}, {"w[0]": "cat"}],
    [{"w[0]": "a", "+1:w": "dog"}, {"w[0]": "dog"}],
]
STARRED_LABELS = [["d", "x", "n"], ["d", "n"]]


def test_a_token_that_is_a_star_takes_nothing_from_a_pattern() -> None:
    """Names as crfsuite has them; every column, whatever the tokens are."""
    texts = ["linear@w[0]=*", "linear@%2B1%3Aw=*", "linear@w[0]=%2A"]
    model = SequenceLabeler(texts, random_state=0).fit(STARRED, STARRED_LABELS)
    assert model._model.kernels.feature_columns == [5, 3, 1]
    assert model.score(STARRED, STARRED_LABELS) == 1.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("linear@+1:w=*", "a '\\+' inside a name as %2B"),
        ("linear@%2B1:w=*", "a ':' inside a name is written %3A"),
        ("linear@x;y=*", "a ';' inside a name is written %3B"),
    ],
)
def test_what_must_be_escaped_is_said(text: str, message: str) -> None:
    X = [[{"+1:w": "a", "x;y": "b"}, {"+1:w": "b", "x;y": "b"}]]
    for kernels in (text, [text]):
        with pytest.raises(ValueError, match=message):
            SequenceLabeler(kernels).fit(X, [["d", "n"]])
    escaped = "linear@%2B1%3Aw=*; linear@x%3By=*"
    model = SequenceLabeler(escaped, random_state=0).fit(X, [["d", "n"]])
    assert model._model.kernels.feature_columns == [2, 1]


def test_a_token_without_attributes_is_a_token() -> None:
    X, y = [[[], ["w=a"]], [["w=b"], []]], [["x", "y"], ["y", "x"]]
    model = SequenceLabeler(random_state=0).fit(X, y)
    assert model.score(X, y) == 1.0
    assert model.predict([]) == []
    assert len(model.predict([[{}, {"w": "a"}]])[0]) == 2


def test_groups_are_patterns_prefixes_or_functions(tmp_path: Path) -> None:
    groups = {"word": "w[0]=*", "next": "+1:w", "star": lambda name: "*" in name}
    model = SequenceLabeler(groups=groups, random_state=0)
    model.fit(STARRED, STARRED_LABELS)
    assert model.kernel_names_ == ["linear@word", "linear@next", "linear@star"]
    assert model._model.kernels.feature_columns == [5, 3, 2]
    model.save(tmp_path / "model")
    again = mk.load(tmp_path / "model")
    assert np.array_equal(
        np.concatenate(again.position_scores(STARRED)),
        np.concatenate(model.position_scores(STARRED)),
    )


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"word": "v"}, "group 'word' must hold a column, got none for 'v\\*'"),
        ({"word": 3}, "group 'word' must be a pattern, a prefix or a function, got 3"),
        (["w"], "groups must be a dict from names to patterns"),
    ],
)
def test_bad_groups_are_refused(groups: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        SequenceLabeler(groups=groups).fit(STARRED, STARRED_LABELS)
    with pytest.raises(ValueError, match="groups are for token dicts"):
        SequenceLabeler(groups={"a": "b"}).fit([np.ones((2, 2))], [["a", "b"]])


def test_sparse_rows_are_cut_by_their_non_zeros() -> None:
    """A wide table of few numbers is one block; a dense one is cut by columns."""
    table = sp.random(200, 100_000, density=1e-4, format="csr", random_state=0)
    kernels = KernelSet.fit([Linear(), Linear(columns=slice(0, 50_000))], table)
    assert len(list(kernels.feature_blocks(table, 2**20))) == 1
    assert len(list(kernels.feature_blocks(table[:4].toarray(), 2**20))) == 4


def test_a_window_shows_the_neighbors(tmp_path: Path) -> None:
    """The label is the token before: alone a token says nothing."""
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(30):
        texts = rng.choice(["u", "v", "w"], size=5)
        X.append([{"text": str(text)} for text in texts])
        y.append(["start", *texts[:-1]])
    seeing = SequenceLabeler(window=1, transitions="none", random_state=0).fit(X, y)
    blind = SequenceLabeler(transitions="none", random_state=0).fit(X, y)
    assert seeing.score(X, y) == 1.0 > blind.score(X, y) + 0.3
    assert seeing.token_attributes_ == ["text"]
    seeing.save(tmp_path / "model")
    loaded = mk.load(tmp_path / "model").set_params(window=None)
    assert same(loaded.predict(X), seeing.predict(X))
    assert loaded.token_attributes_ == ["text"]
    with pytest.raises(ValueError, match="window=1 needs sequences of token dicts"):
        SequenceLabeler(window=1).fit(*words(3))


def test_sparse_sequences_equal_dense_ones(data: Any) -> None:
    X, y = data
    kernels = [Linear(), RBF(0.3)]
    dense = mixed(kernels=kernels).fit(X, y)
    sparse = mixed(kernels=kernels).fit([sp.csr_matrix(x) for x in X], y)
    assert same(dense.predict(X), sparse.predict(X))


@pytest.mark.parametrize(
    "regularizer",
    [
        "group_lasso",
        "squared_l2",
        "elastic_net",
        "squared_p",
        "power",
        SquaredPNorm(1.3),
        OverlappingGroups([(0, 1), (1, 2)]),
        SumOf([SquaredL2(), ElasticNetMKL(0.1)], [0.5, 1.0]),
    ],
)
def test_regularizers(data: Any, regularizer: Any) -> None:
    X, y = data
    assert mixed(regularizer=regularizer).fit(X, y).score(X, y) > 0.8


def test_sparse_group_lasso_needs_explicit_blocks(data: Any) -> None:
    X, y = data
    sparse = SparseGroupLasso(0.1)
    model = mixed(kernels="linear", regularizer=sparse, C=0.3).fit(X, y)
    assert np.mean(model._model.weights.table == 0.0) > 0.1
    with pytest.raises(ValueError, match="explicit features only"):
        mixed(regularizer=sparse).fit(X, y)


def test_noise_kernels_get_little_weight(data: Any) -> None:
    X, y = data
    kernels = [RBF(columns=[0, 1, 2]), "rbf@3", "rbf@4", "rbf@5"]
    model = mixed(kernels=kernels, regularizer="group_lasso", C=1.0).fit(X, y)
    uniform = mixed(kernels=kernels, regularizer="squared_l2", C=1.0).fit(X, y)
    assert model.kernel_weights_[0] > uniform.kernel_weights_[0]
    assert model.kernel_weights_.argmax() == 0


def test_costs_change_what_is_confused(data: Any) -> None:
    X, y = words(60, noise=2.0)
    dear = 1.0 - np.eye(3)
    dear[0, :] *= 20.0  # missing an "a" is expensive
    plain = mixed(transitions="none").fit(X, y)
    costly = mixed(transitions="none", cost=dear).fit(X, y)
    count = [np.sum(np.concatenate(m.predict(X)) == "a") for m in (plain, costly)]
    assert count[1] > count[0]


def test_partial_fit_goes_through_a_stream() -> None:
    X, y = words(120)
    X_new, y_new = words(60, seed=1)
    model = mixed(max_iter=1)
    for start in range(0, 120, 30):
        part = slice(start, start + 30)
        model.partial_fit(X[part], y[part], classes=LABELS)
    assert model.score(X_new, y_new) > 0.8
    assert model.n_iter_ == 4
    assert model._model.n_sequences == 120


@pytest.mark.parametrize("average", [False, True])
def test_one_call_of_partial_fit_is_one_epoch(data: Any, average: bool) -> None:
    X, y = data
    solver = OnlineProximal(average=average)
    settings = {"max_iter": 1, "solver": solver, "dtype": "float64"}
    whole = mixed(**settings).fit(X, y)
    once = mixed(**settings).partial_fit(X, y)
    # Another order of the sequences, but the same sort of model.
    assert once.score(X, y) == pytest.approx(whole.score(X, y), abs=0.1)
    assert np.allclose(once.kernel_weights_.sum(), 1.0)


def test_partial_fit_of_explicit_blocks_needs_no_positions() -> None:
    X, y = words(60)
    model = SequenceLabeler("linear", random_state=0)
    for n in range(0, 60, 10):
        model.partial_fit(X[n : n + 10], y[n : n + 10], classes=LABELS)
    assert model._model.kernels.n_reference == 0
    assert model.score(X, y) > 0.7


@pytest.mark.parametrize("average", [False, True])
def test_save_and_load(data: Any, tmp_path: Path, average: bool) -> None:
    X, y = data
    X_new, y_new = words(20, seed=5)
    solver = OnlineProximal(eta0=0.3, average=average)
    model = mixed(solver=solver, loss="crf").fit(X, y)
    model.save(tmp_path / "model")
    loaded = mk.load(tmp_path / "model")
    assert same(loaded.position_scores(X_new), model.position_scores(X_new))
    assert same(loaded.predict_marginals(X_new), model.predict_marginals(X_new))
    assert loaded.get_params()["loss"] == "crf"
    assert loaded.solver == solver
    assert loaded.history_ == model.history_
    assert np.array_equal(loaded.kernel_weights_, model.kernel_weights_)
    model.partial_fit(X_new, y_new)
    loaded.partial_fit(X_new, y_new)
    assert same(loaded.position_scores(X), model.position_scores(X))


def test_regularizers_from_elsewhere_cannot_be_saved(data: Any, tmp_path: Path) -> None:
    class Own:
        def terms(self) -> Any:
            return SquaredL2().terms()

    X, y = data
    model = mixed(regularizer=Own(), max_iter=1).fit(X, y)
    with pytest.raises(TypeError, match="can be written to a file"):
        model.save(tmp_path / "model")


def test_files_with_parts_that_disagree_are_refused(
    data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = data
    model = mixed(max_iter=1).fit(X, y)
    model.classes_ = model.classes_[:2]
    model.save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="disagree: labels"):
        mk.load(tmp_path / "model")


def test_works_with_sklearn_tools(data: Any) -> None:
    X, y = data
    model = SequenceLabeler("linear", max_iter=3, random_state=0)
    assert np.mean(cross_val_score(model, X, y, cv=3)) > 0.6
    search = GridSearchCV(model, {"C": [0.1, 10.0]}, cv=2).fit(X, y)
    assert search.best_params_["C"] in (0.1, 10.0)


def test_same_seed_same_model_and_weights_of_sequences(data: Any) -> None:
    X, y = data
    one, other = (mixed(max_iter=3).fit(X, y) for _ in range(2))
    assert same(one.position_scores(X), other.position_scores(X))
    weight = np.ones(len(X))
    weighted = mixed(max_iter=3).fit(X, y, sample_weight=weight)
    assert same(one.position_scores(X), weighted.position_scores(X))
    weight[:20] = 0.0
    half = mixed(max_iter=10).fit(X, y, sample_weight=weight)
    alone = mixed(max_iter=10).fit(X[20:], y[20:])
    assert half.score(X[20:], y[20:]) == pytest.approx(
        alone.score(X[20:], y[20:]), abs=0.1
    )


def test_callback_verbose_and_automatic_step(data: Any, capsys: Any) -> None:
    X, y = data
    model = mixed(callback=lambda line: line.epoch == 2, verbose=1).fit(X, y)
    assert model.n_iter_ == 2
    assert capsys.readouterr().err.count("objective") == 2
    automatic = mixed(solver=OnlineProximal(eta0="auto"), max_iter=2).fit(X, y)
    assert automatic.eta0_ in (0.01, 0.1, 1.0, 10.0)


def test_epochs_are_those_of_the_solver_unless_given(data: Any) -> None:
    X, y = data
    solver = OnlineProximal(epochs=3)
    assert mixed(max_iter=None, solver=solver).fit(X, y).n_iter_ == 3
    assert mixed(max_iter=2, solver=solver).fit(X, y).n_iter_ == 2


def test_integer_and_single_position_labels() -> None:
    """Chains of length one are plain classification."""
    rng = np.random.default_rng(0)
    target = rng.integers(3, size=60)
    table = np.eye(3)[target] + 0.3 * rng.normal(size=(60, 3))
    X, y = [row[None, :] for row in table], [[int(k)] for k in target]
    model = SequenceLabeler("rbf", transitions="none", random_state=0).fit(X, y)
    assert model.score(X, y) > 0.95
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.score(X, y) == model.score(X, y, scoring="sequences")


# --- what is refused ----------------------------------------------------------


def bad_inputs() -> list[Any]:
    X, y = words(3)
    nan = [x.copy() for x in X]
    nan[1][0, 0] = np.nan
    return [
        pytest.param(X, y[:2], "one sequence of labels per sequence", id="fewer y"),
        pytest.param(X, [y[0][:-1], *y[1:]], "one label per position", id="short"),
        pytest.param([X[0], X[1][:0], X[2]], y, "at least one position", id="empty"),
        pytest.param(nan, y, "NaN in sequence 1", id="nan"),
        pytest.param([], [], "at least one sequence", id="nothing"),
        pytest.param(X[0], y, "list of sequences, got one table", id="table"),
        pytest.param(["ab", "cd"], y, "list of sequences", id="texts"),
        pytest.param([X[0], X[1][:, :2], X[2]], y, "same number of columns", id="wide"),
        pytest.param(X, None, "y must be passed", id="no y"),
        pytest.param(X, [["a"] * len(x) for x in X], "at least 2 labels", id="one"),
        pytest.param(X, ["abc", "ab", "a"], "sequences of labels", id="text labels"),
        pytest.param([x[0] for x in X], y, "dimensions|flat", id="one dimension"),
        pytest.param([[{"a": 1}], [3]], [["x"], ["y"]], "tokens must be", id="token"),
        pytest.param([[{"a": np.inf}]], [["x"]], "infinity in a token", id="inf"),
        pytest.param(3, y, "list of sequences", id="number"),
    ]


@pytest.mark.parametrize(("X", "y", "message"), bad_inputs())
def test_bad_sequences_are_refused(X: Any, y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SequenceLabeler("linear").fit(X, y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cost": np.ones((3, 3))}, "zero diagonal"),
        ({"cost": np.zeros((2, 2))}, "3 x 3"),
        ({"loss": "crf", "cost": 1.0 - np.eye(3)}, "cost belongs to"),
        ({"kernels": [Precomputed()]}, "kernels on feature columns"),
        ({"memory_limit": 1000}, "storing 1 kernels"),
    ],
)
def test_bad_settings_are_refused(
    data: Any, settings: dict[str, Any], message: str
) -> None:
    X, y = data
    with pytest.raises((ValueError, MemoryError), match=message):
        mixed(**settings).fit(X, y)


def test_bad_predictions_are_refused(data: Any) -> None:
    X, y = data
    model = SequenceLabeler("linear", max_iter=1).fit(X, y)
    with pytest.raises(ValueError, match="6 columns as in training"):
        model.predict([x[:, :4] for x in X])
    with pytest.raises(ValueError, match="arrays as in training"):
        model.predict(tokens(X))
    with pytest.raises(ValueError, match="labels seen in training"):
        model.partial_fit(X, [np.full(len(part), "z") for part in y])
    with pytest.raises(ValueError, match="stay the same"):
        model.partial_fit(X, y, classes=["a", "b"])
    with pytest.raises(ValueError, match="number for partial_fit"):
        clone(model).set_params(solver=OnlineProximal(eta0="auto")).partial_fit(X, y)
    with pytest.raises(ValueError, match="numbers >= 0"):
        model.fit(X, y, sample_weight=[1.0])
    assert model.predict([]) == []
    with pytest.raises(ValueError, match="a sequence to score"):
        model.score([], [])
    dicts = SequenceLabeler(max_iter=1).fit(tokens(X), y)
    with pytest.raises(ValueError, match="token dicts as in training"):
        dicts.predict(X)


def pairs_by_a_sign(n: int = 60, seed: int = 0) -> tuple[Any, Any]:
    """A token's "turn" says whether the label changes; the first one is shown."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        length = int(rng.integers(3, 7))
        turns = rng.random(length) < 0.5
        turns[0] = rng.random() < 0.5
        labels = np.cumsum(turns) % 2
        X.append([{"turn": str(bool(turn))} for turn in turns])
        X[-1][0] = {"start": str(labels[0])}
        y.append(np.array(["a", "b"])[labels])
    return X, y


def test_edges_learn_what_transitions_cannot() -> None:
    X, y = pairs_by_a_sign()
    X_new, y_new = pairs_by_a_sign(40, seed=1)
    plain = SequenceLabeler(random_state=0).fit(X, y)
    model = SequenceLabeler(edges={"turn": "turn="}, random_state=0).fit(X, y)
    assert plain.score(X_new, y_new) < 0.8
    assert model.score(X_new, y_new) == 1.0
    assert model.edge_names_ == ["linear@turn"]
    assert model.edge_weights_[0] > 0.0
    assert model.kernel_weights_.sum() == pytest.approx(1.0)
    strongest = model.strongest_transitions(4)
    assert {
        (s.before == s.after) == (s.feature == "turn=False") for s in strongest
    } <= {
        True,
        strongest[0].weight < 0.0,
    }


def test_edges_are_brute_force_in_prediction() -> None:
    X, y = pairs_by_a_sign()
    model = SequenceLabeler(edges="linear@turn*", loss="crf", random_state=0).fit(X, y)
    sequence = X[0][:4]
    names = model.feature_names_in_.tolist()
    table = model._model.weights.edges.reshape(-1, 2, 2)
    turns = [n for n in names if n.startswith("turn")]
    unary = model.position_scores([sequence])[0]

    def score(path: tuple[int, ...]) -> float:
        total = sum(unary[t, k] for t, k in enumerate(path))
        for t in range(1, len(path)):
            total += model.transitions_[path[t - 1], path[t]]
            column = turns.index("turn=" + sequence[t]["turn"])
            total += table[column, path[t - 1], path[t]]
        return float(total)

    known = sorted(product(range(2), repeat=4), key=lambda path: -score(path))
    partition = np.logaddexp.reduce([score(path) for path in known])
    best = model.predict_best([sequence], k=5)[0]
    assert len(best) == 5
    for path, found in zip(known, best, strict=False):
        assert found.labels.tolist() == model.classes_[list(path)].tolist()
        assert found.score == pytest.approx(score(path))
        assert found.probability == pytest.approx(np.exp(score(path) - partition))
    assert np.array_equal(model.predict([sequence])[0], best[0].labels)
    chances = model.predict_marginals([sequence])[0]
    wanted = sum(np.exp(score(p) - partition) * np.eye(2)[list(p)] for p in known)
    assert np.allclose(chances, wanted)


def test_edges_are_decoded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = pairs_by_a_sign()
    model = SequenceLabeler(edges="linear@turn*", loss="crf", random_state=0).fit(X, y)
    whole, chances = model.predict(X), model.predict_marginals(X)
    monkeypatch.setattr(
        "manykernels.structured.chain_blocks.TRANSITION_BYTES", 8 * 4 * 9
    )
    assert same(model.predict(X), whole)
    assert all(
        np.allclose(a, b)
        for a, b in zip(model.predict_marginals(X), chances, strict=True)
    )
    again = SequenceLabeler(edges="linear@turn*", loss="crf", random_state=0).fit(X, y)
    assert again.objective_ == pytest.approx(model.objective_)


@pytest.mark.parametrize("update", ["gradient", "dual_averaging"])
def test_edges_are_saved_and_learned_on(tmp_path: Path, update: str) -> None:
    X, y = pairs_by_a_sign()
    settings: Any = {
        "edges": {"turn": "turn=", "start": "start="},
        "solver": OnlineProximal(update=update, eta0=0.3),
        "random_state": 0,
    }
    model = SequenceLabeler(**settings).partial_fit(X[:30], y[:30])
    model.save(tmp_path / "model")
    loaded = mk.load(tmp_path / "model")
    assert same(loaded.predict(X), model.predict(X))
    for one in (model, loaded):
        for _ in range(5):
            one.partial_fit(X[30:], y[30:])
    assert same(loaded.predict(X), model.predict(X))
    assert model.score(X[:30], y[:30]) > 0.9


def test_edges_must_have_features() -> None:
    X, y = words(4)
    with pytest.raises(ValueError, match="edges must be linear or approximate"):
        SequenceLabeler("linear", edges="rbf").fit(X, y)
    model = SequenceLabeler("linear", edges="linear@0-1", random_state=0).fit(X, y)
    assert {t.feature for t in model.strongest_transitions(30)} <= {None, "x0", "x1"}


def test_weights_of_features_are_the_scores(data: Any) -> None:
    X, y = data
    kernels = [Linear(columns=[0, 1, 2], normalize="trace"), Linear(normalize=None)]
    model = mixed(kernels=kernels).fit(X, y)
    weights = model.feature_weights()
    for sequence, scores in zip(X, model.position_scores(X), strict=True):
        assert np.allclose(sequence @ weights, scores)
    strongest = model.strongest_features(2)["a"]
    order = np.argsort(-np.abs(weights[:, 0]))[:2]
    assert [found.feature for found in strongest] == [f"x{f}" for f in order]
    assert [found.weight for found in strongest] == weights[order, 0].tolist()
    with pytest.raises(ValueError, match="need linear kernels only, got 'rbf"):
        mixed().fit(X, y).strongest_features()


def test_features_keep_their_names() -> None:
    X = [[{"word": "the"}, {"word": "cat"}], [{"word": "a"}, {"word": "dog"}]]
    model = SequenceLabeler(random_state=0).fit(X, [["det", "noun"]] * 2)
    best = model.strongest_features(2)["noun"]
    assert {found.feature for found in best} <= set(model.feature_names_in_)
    top = model.strongest_transitions(1)[0]
    assert (top.before, top.after, top.feature) == ("det", "noun", None)


def test_every_attribute_has_its_kernel() -> None:
    X = [[{"word": "a", "size": 1.0}, {"word": "b", "size": 2.0}]] * 3
    model = SequenceLabeler(random_state=0).fit(X, [["x", "y"]] * 3)
    assert model.kernel_names_ == ["linear@size", "linear@word"]
    listed = [[["w=a", "p=x"], ["w=b", "p=y"]]] * 3
    model = SequenceLabeler(random_state=0).fit(listed, [["x", "y"]] * 3)
    assert model.kernel_names_ == ["linear@p", "linear@w"]
    many = [[{f"f{n}": 1.0 for n in range(201)}, {"f0": 2.0}]] * 3
    model = SequenceLabeler(random_state=0).fit(many, [["x", "y"]] * 3)
    assert model.kernel_names_ == ["linear"]


def noisy_groups(n: int = 60, seed: int = 0) -> tuple[Any, Any]:
    """Four groups of texts, of which three say nothing."""
    rng = np.random.default_rng(seed)
    X, y = words(n, seed)
    tokens = [
        [
            {"top": str(np.argmax(row[:3])), **{f"n{j}": str(v) for j, v in draws}}
            for row in sequence
            for draws in [enumerate(rng.integers(9, size=3))]
        ]
        for sequence in X
    ]
    return tokens, y


def test_dual_averaging_drops_kernels_and_a_refit_keeps_the_rest(
    tmp_path: Path,
) -> None:
    X, y = noisy_groups()
    X_new, y_new = noisy_groups(seed=1)
    dual = OnlineProximal(update="dual_averaging", eta0=0.3)
    kept = SequenceLabeler(C=0.1, solver=dual, random_state=0).fit(X, y)
    gradient = SequenceLabeler(C=0.1, random_state=0).fit(X, y)
    noise = [name != "linear@top" for name in kept.kernel_names_]
    assert not kept.kernel_weights_[noise].any()
    assert np.all(gradient.kernel_weights_[noise] > 0.0)
    again = SequenceLabeler(C=0.1, refit_C=10.0, random_state=0).fit(X, y)
    assert again.kernel_names_ == ["linear@top"]
    assert again.dropped_kernels_ == ["linear@n0", "linear@n1", "linear@n2"]
    assert again.score(X_new, y_new) > gradient.score(X_new, y_new)
    assert len(again.selection_history_) == len(again.history_) == 20
    again.save(tmp_path / "model")
    assert mk.load(tmp_path / "model").dropped_kernels_ == again.dropped_kernels_
    again.partial_fit(X, y)


def test_refits_that_cannot_be() -> None:
    X, y = noisy_groups(20)
    with pytest.raises(ValueError, match="the first fit has left, got none"):
        SequenceLabeler(
            regularizer="group_lasso", C=1e-3, refit_C=1.0, random_state=0
        ).fit(X, y)
    with pytest.raises(ValueError, match="call fit before it"):
        SequenceLabeler(refit_C=1.0).partial_fit(X, y)


def test_kernel_weights_are_those_of_the_learned_kernel(data: Any) -> None:
    """norm^(2 - q): the norms for sparse MKL, ones for squared l2."""
    X, y = data
    for regularizer, q in (
        (SquaredL2(), 2.0),
        ("sparse_mkl", 1.0),
        (SquaredPNorm(1.4), 1.4),
    ):
        model = mixed(regularizer=regularizer).fit(X, y)
        powers = model.kernel_norms_ ** (2.0 - q)
        assert np.allclose(model.kernel_weights_, powers / powers.sum())
    fixed = mixed().fit(X, y)
    assert fixed.transition_weight_ == pytest.approx(1.0)  # beta_0 = 1 in the paper


def test_best_sequences_come_in_order(data: Any) -> None:
    X, y = data
    model = mixed().fit(X, y)
    best = model.predict_best(X[:5], k=4)
    for sequence, found, labels in zip(X, best, model.predict(X), strict=False):
        scores = [one.score for one in found]
        assert len(found) == 4
        assert scores == sorted(scores, reverse=True)
        assert np.array_equal(found[0].labels, labels)
        assert len(sequence) == len(labels)
        assert found[0].probability is None
    with pytest.raises(ValueError, match="k must be a positive whole number"):
        model.predict_best(X, k=0)


def test_the_mean_of_the_second_half_of_the_epochs(data: Any) -> None:
    """Nothing is left out by one more epoch than there is: the mean of all."""
    X, y = data
    models = {}
    for average in (False, True, "tail"):
        solver = OnlineProximal(average=average)
        models[average] = mixed(solver=solver, max_iter=4).fit(X, y)
    half = mixed(solver=OnlineProximal(average=True), max_iter=2).fit(X, y)
    mean, early = models[True].transitions_, half.transitions_
    assert np.allclose(models["tail"].transitions_, 2.0 * mean - early)
    assert not np.allclose(models["tail"].transitions_, models[False].transitions_)


def test_tokens_are_columns_as_a_vectorizer_makes_them() -> None:
    tokens = [
        {"a": "b=c", "size": 2, "on": np.True_, 3: "x"},
        {"a=b": "c", "tags": ["u", "v", "u"], "size": 0.5, 3: 1.0},
        {"a": "new", "none": "new", "off": False},
    ]
    columns = TokenColumns.of([tokens[:2]])
    plain = [{k: bool(v) if v is np.True_ else v for k, v in t.items()} for t in tokens]
    plain = [{str(k): v for k, v in token.items()} for token in plain]
    vectorizer = DictVectorizer().fit(plain[:2])
    assert columns.names == vectorizer.feature_names_
    wanted = vectorizer.transform(plain).toarray()
    assert np.array_equal(columns.table([tokens]).toarray(), wanted)
    with pytest.raises(TypeError, match="must be texts, numbers or lists of texts"):
        TokenColumns.of([[{"a": {"b": 1}}]])
