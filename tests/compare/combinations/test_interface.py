"""What all combinations share: scikit-learn's conventions, banks, files, refusals."""

import json

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import manykernels as mk
from manykernels.banks import GramBank, OnDemandBank
from manykernels.banks.composed import (
    MergedBank,
    WeightedBank,
    merged,
    weighted_sum,
)
from manykernels.compare.combinations.product import PowerProduct
from manykernels.files import from_plain, to_plain
from manykernels.kernels import RBF
from manykernels.kernels.kernel_set import KernelSet
from tests.mkl.test_bad_input import refused

ALL = [
    mk.compare.AlignmentClassifier,
    mk.compare.AveragedKernelClassifier,
    mk.compare.BestKernelClassifier,
    mk.compare.EasyMKLClassifier,
    mk.compare.LPBetaClassifier,
    mk.compare.LeaveOneOutKernelClassifier,
    mk.compare.ProductKernelClassifier,
]

# --- tools ------------------------------------------------------------------


@pytest.mark.parametrize("make", ALL)
def test_pipeline_and_frame(make, iris):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(iris.X, columns=["sl", "sw", "pl", "pw"])
    new = pd.DataFrame(iris.X_new, columns=frame.columns)
    scaler = StandardScaler().set_output(transform="pandas")
    model = make_pipeline(scaler, make("rbf@s*; rbf@p*", C=10, random_state=0))
    labels = np.array(["a", "b", "c"])
    model.fit(frame, labels[iris.y])
    assert model.score(new, labels[iris.y_new]) > 0.85
    assert model[-1].feature_names_in_.tolist() == list(frame.columns)
    assert model[-1].kernel_names_ == ["rbf@s*", "rbf@p*"]
    assert model.predict_proba(new).sum(axis=1) == pytest.approx(1.0)


@pytest.mark.parametrize("make", ALL)
def test_search_over_C_slices_a_stack(make, stack):
    cv = StratifiedKFold(3)
    model = make("precomputed", random_state=0)
    search = GridSearchCV(model, {"C": [0.01, 10.0]}, cv=cv).fit(stack.X, stack.y)
    train, test = next(cv.split(stack.X, stack.y))
    by_hand = clone(model).set_params(C=10.0)
    by_hand.fit(stack.X[train][:, train], stack.y[train])
    score = by_hand.score(stack.X[test][:, train], stack.y[test])
    assert search.cv_results_["split0_test_score"][1] == score
    assert search.score(stack.X_new, stack.y_new) > 0.85


@pytest.mark.parametrize("make", ALL)
def test_lists_of_matrices_and_one_seed(make, stack):
    first, second = (
        make("precomputed", random_state=0).fit(X, stack.y)
        for X in (stack.X, [stack.X[..., f] for f in range(4)])
    )
    np.testing.assert_allclose(
        first.decision_function(stack.X_new),
        second.decision_function([stack.X_new[..., f] for f in range(4)]),
    )
    assert first.n_features_in_ == len(stack.X)


@pytest.mark.parametrize("make", ALL)
def test_rows_without_a_weight_are_not_there(make, iris, exact):
    weight = (np.arange(len(iris.y)) % 4 > 0).astype(float)
    kept = weight > 0
    kernels = "rbf@0-1; rbf@2-3"
    model = make(kernels, **exact).fit(iris.X, iris.y, weight)
    small = make(kernels, **exact).fit(iris.X[kept], iris.y[kept])
    np.testing.assert_allclose(
        model.decision_function(iris.X_new),
        small.decision_function(iris.X_new),
        atol=1e-6,
    )
    np.testing.assert_array_equal(model.support_, np.flatnonzero(kept)[small.support_])


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("labels", [[0, 1, 2], [0, 0, 2]])
def test_classes_without_a_weight_are_not_predicted(make, labels, iris):
    y = np.array(labels)[iris.y]
    model = make("rbf@0-1; rbf@2-3", C=10, class_weight={2: 0.0}, random_state=0)
    model.fit(iris.X, y)
    assert model.classes_.tolist() == sorted(set(labels))
    kept = iris.y_new < 2
    assert model.score(iris.X_new[kept], np.array(labels)[iris.y_new[kept]]) > 0.9


@pytest.mark.parametrize("make", ALL)
def test_kernels_on_demand_give_the_same(make, iris, exact):
    kernels = "rbf@0-1; rbf@2-3"
    stored = make(kernels, **exact | {"storage": "gram:float64"}).fit(iris.X, iris.y)
    model = make(kernels, **exact | {"storage": "on_demand:float64"}).fit(
        iris.X, iris.y
    )
    np.testing.assert_allclose(
        model.decision_function(iris.X_new),
        stored.decision_function(iris.X_new),
        atol=1e-4,
    )


# --- one block --------------------------------------------------------------


@pytest.fixture(scope="module")
def kernels():
    X = np.random.default_rng(0).normal(size=(30, 4))
    specs = [RBF(0.3, columns=[0, 1]), RBF(0.1, columns=[2]), RBF(1.0)]
    return KernelSet.fit(specs, X, dtype=np.float64)


def one_block_banks(kernels):
    lazy = OnDemandBank(kernels)
    stack = kernels.stack()
    weights = np.array([0.2, 0.0, 1.5])
    product = PowerProduct(0.5)
    return [
        (weighted_sum(lazy, weights), np.einsum("f,fij->ij", weights, stack)),
        (merged(lazy, product), np.sqrt(np.prod(stack, axis=0))),
    ]


def test_lazy_banks_equal_their_dense_twins(kernels):
    rng = np.random.default_rng(1)
    coef = rng.normal(size=(30, 3)) * (rng.random((30, 1)) < 0.5)
    some, two = np.array([3, 17, 4]), np.array([2.0])
    for bank, dense in one_block_banks(kernels):
        assert isinstance(bank, WeightedBank | MergedBank) and bank.n_blocks == 1
        twin = GramBank(dense[:, None, :])
        for name, arguments in [
            ("diagonals", ()),
            ("rows", (some,)),
            ("combine", (two, some)),
            ("scores", (coef, two)),
            ("block_scores", (coef,)),
            ("square_norms", (coef,)),
        ]:
            found = getattr(bank, name)(*arguments)
            expected = getattr(twin, name)(*arguments)
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, atol=1e-9, err_msg=name)
        part = bank.take(some)
        np.testing.assert_allclose(part.rows(np.arange(3))[:, 0], dense[some][:, some])


def test_values_in_memory_are_combined_once(kernels):
    bank = GramBank(np.moveaxis(kernels.stack(), 0, 1))
    assert isinstance(weighted_sum(bank, np.ones(3)), GramBank)
    assert isinstance(merged(bank, PowerProduct(1.0)), GramBank)


# --- files, documents, refusals ---------------------------------------------


@pytest.mark.parametrize("make", ALL)
def test_saved_models_predict_the_same(make, iris, tmp_path):
    model = make("rbf@0-1; rbf@2-3; linear", C=3.0, random_state=0)
    model.fit(iris.X, iris.y).save(tmp_path / "model")
    loaded = mk.load(tmp_path / "model")
    assert type(loaded) is make and loaded.C == 3.0
    methods = ("decision_function", "predict_proba", "kernel_contributions")
    for name in (name for name in methods if hasattr(model, name)):
        np.testing.assert_array_equal(
            getattr(loaded, name)(iris.X_new), getattr(model, name)(iris.X_new)
        )
    np.testing.assert_array_equal(loaded.dual_coef_, model.dual_coef_)


@pytest.mark.parametrize("make", ALL)
def test_fitted_models_are_plain_data(make, iris):
    model = make("rbf@0-1; rbf@2-3; linear", C=3.0, random_state=0)
    model.fit(iris.X, iris.y)
    arrays = []
    plain = json.loads(json.dumps(to_plain(model._model, arrays)))
    np.testing.assert_array_equal(
        from_plain(plain, arrays).scores(iris.X_new), model._model.scores(iris.X_new)
    )


@pytest.mark.parametrize("make", ALL)
def test_refusals(make, iris):
    with pytest.raises(NotFittedError):
        make().predict(iris.X)
    with refused("C must be a number in (0, inf), got -1"):
        make(C=-1).fit(iris.X, iris.y)
    with refused("tol must be a number", "got 'low'"):
        make(tol="low").fit(iris.X, iris.y)
    with refused(make.__name__, "at least 2 classes"):
        make().fit(iris.X, np.zeros(len(iris.y)))
    with refused("partial_fit", "MKLClassifier", error=AttributeError):
        make().partial_fit(iris.X, iris.y)


@pytest.mark.parametrize(
    "make", [mk.compare.EasyMKLClassifier, mk.compare.LeaveOneOutKernelClassifier]
)
def test_matrices_of_all_pairs_need_memory(make, iris):
    model = make("rbf", storage="on_demand", memory_limit="200KB")
    with refused("of 90 rows needs about", "memory_limit", error=MemoryError):
        model.fit(iris.X, iris.y)


def test_unknown_words(iris):
    with refused("method must be 'alignf' or 'align', got 'best'"):
        mk.compare.AlignmentClassifier(method="best").fit(iris.X, iris.y)
    with refused("power must be a positive number, 'mean' or 'auto', got 'max'"):
        mk.compare.ProductKernelClassifier(power="max").fit(iris.X, iris.y)
