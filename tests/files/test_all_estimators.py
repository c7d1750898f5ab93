"""Every estimator goes into a file and comes back: the same class, to the bit."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

import manykernels as mk
from manykernels.files import ModelFileError, read_container, write_container
from manykernels.files.saved import NEVER
from manykernels.structured import Sentence
from tests.all_estimators import ESTIMATORS
from tests.files.forging import strange_arrays, strange_values

X, y = load_iris(return_X_y=True)
X, y = X[::3], y[::3]
NEW = X + np.random.default_rng(0).normal(scale=0.1, size=X.shape)
NAMES = np.array(["setosa", "versicolor", "virginica"])[y]
FOUR = ["rbf@0", "rbf@1", "rbf@2", "linear"]
TARGET = X[:, 0] * X[:, 2]
TIMES = np.zeros(len(X), dtype=[("seen", bool), ("days", float)])
TIMES["seen"], TIMES["days"] = np.arange(len(X)) % 3 > 0, TARGET
TAGS = ["DET", "NOUN", "VERB"]
SENTENCES = [
    Sentence.of(["the", "dog", "barks"], TAGS, heads=[2, 3, 0]),
    Sentence.of(["dogs", "bark"], TAGS[1:], heads=[2, 0]),
]
TOKENS = [
    [{"word": "the"}, {"word": "cat"}, {"word": "sleeps"}],
    [{"word": "a"}, {"word": "dog"}, {"word": "barks"}],
]
WORDS = [["det", "noun", "verb"], ["det", "noun", "verb"]]
ARRAYS = [X[:20], X[20:]]
LETTERS = [list(NAMES[:20]), list(NAMES[20:])]

# What to fit, on what, and what to predict.
HOLES = X[:, 2:].copy()
HOLES[::5] = np.nan  # every fifth row lacks the second view
VIEWS = mk.Views({"sepal": pd.DataFrame(X[:, :2], columns=["l", "w"]), "petal": HOLES})
NEW_VIEWS = mk.Views({"petal": NEW[:, 2:], "sepal": NEW[:, :2]})
CASES = {
    "MKLClassifier views": (
        mk.MKLClassifier("rbf", scale={"petal": "robust"}, random_state=0),
        (VIEWS, NAMES),
        NEW_VIEWS,
    ),
    "MKLClassifier completed": (
        mk.MKLClassifier("rbf", missing="complete", random_state=0),
        (VIEWS, NAMES),
        NEW_VIEWS,
    ),
    "MKLRegressor scaled": (
        mk.MKLRegressor("linear; rbf", scale="log1p+standard", random_state=0),
        (X, TARGET),
        NEW,
    ),
    "MKLClassifier": (
        mk.MKLClassifier(FOUR, class_weight={"setosa": 2.0}, random_state=0),
        (X, NAMES),
        NEW,
    ),
    "MKLClassifier solver": (
        mk.MKLClassifier(FOUR, p=1, solver=mk.compare.SimpleMKL(tol=0.05)),
        (X, y),
        NEW,
    ),
    "MKLRegressor": (mk.MKLRegressor(FOUR), (X, TARGET), NEW),
    "MKLRegressor targets": (
        mk.MKLRegressor(FOUR, per_target_weights=True),
        (X, np.column_stack([TARGET, X[:, 1]])),
        NEW,
    ),
    "MKLRegressor loss": (
        mk.MKLRegressor(FOUR, loss=mk.losses.Huber(0.5)),
        (X, TARGET),
        NEW,
    ),
    "MKLClassifierCV": (
        mk.MKLClassifierCV(FOUR, ps=(1.1, 2.0), Cs=[0.1, 10], cv=3, random_state=0),
        (X, y),
        NEW,
    ),
    "MKLRegressorCV": (mk.MKLRegressorCV(FOUR, Cs=3), (X, TARGET), NEW),
    "MKLRegressorCV targets": (
        mk.MKLRegressorCV(FOUR, Cs=[1.0, 10.0], cv=3, per_target_weights=True),
        (X, np.column_stack([TARGET, X[:, 1]])),
        NEW,
    ),
    "MKLSurvival": (mk.MKLSurvival(FOUR, random_state=0), (X, TIMES), NEW),
    "MKLSurvival times": (
        mk.MKLSurvival(
            FOUR, epsilon=0.1, time_scale="linear", fit_intercept=False, random_state=0
        ),
        (X, TIMES),
        NEW,
    ),
    "PolynomialMKLClassifier": (
        mk.PolynomialMKLClassifier(
            degree=2,
            degree_weights=(1, 1, 2),
            C=1.0,
            solver=mk.products.ColumnGeneration(tol=1e-2),
        ),
        (X, NAMES),
        NEW,
    ),
    "PolynomialMKLRegressor": (
        mk.PolynomialMKLRegressor(degree=2, random_state=0),
        (pd.DataFrame(X, columns=list("abcd")), TARGET),
        pd.DataFrame(NEW, columns=list("abcd")),
    ),
    "SequenceLabeler": (
        mk.SequenceLabeler(window=1, random_state=0),
        (TOKENS, WORDS),
        TOKENS,
    ),
    "SequenceLabeler kernels": (
        mk.SequenceLabeler(
            ["rbf", "bspline@0", "linear"],
            regularizer=mk.norms.SumOf([mk.norms.GroupLasso()], [0.5]),
            solver=mk.structured.OnlineProximal(average=True),
            random_state=0,
        ),
        (ARRAYS, LETTERS),
        ARRAYS,
    ),
    "DependencyParser": (
        mk.DependencyParser(
            ["h.upos m.upos", "h.form m.upos distance"],
            n_epochs=3,
            random_state=0,
            memory_limit="10MB",
            solver=mk.structured.OnlineProximal(average=False),
        ),
        (SENTENCES,),
        SENTENCES,
    ),
    "AlignmentClassifier": (mk.compare.AlignmentClassifier(FOUR), (X, y), NEW),
    "AveragedKernelClassifier": (
        mk.compare.AveragedKernelClassifier(FOUR),
        (X, y),
        NEW,
    ),
    "BestKernelClassifier": (
        mk.compare.BestKernelClassifier(FOUR, Cs=[1.0, 10.0], cv=3),
        (X, y),
        NEW,
    ),
    "EasyMKLClassifier": (mk.compare.EasyMKLClassifier(FOUR), (X, y), NEW),
    "EasyMKLClassifier two": (mk.compare.EasyMKLClassifier(FOUR), (X, y > 0), NEW),
    "LPBetaClassifier": (mk.compare.LPBetaClassifier(FOUR, cv=3), (X, y), NEW),
    "LPBetaClassifier classes": (
        mk.compare.LPBetaClassifier(FOUR, "per_class", cv=3),
        (X, y),
        NEW,
    ),
    "LeaveOneOutKernelClassifier": (
        mk.compare.LeaveOneOutKernelClassifier(FOUR, max_kernels=2),
        (X, y),
        NEW,
    ),
    "ProductKernelClassifier": (
        mk.compare.ProductKernelClassifier("rbf@0-1; rbf@2-3"),
        (X, y),
        NEW,
    ),
}
for case in CASES.values():  # the same fit twice has to be the same
    case[0].set_params(random_state=0)
RULES = {
    name: [rule for rule in CASES[name][0]._rules if rule not in NEVER]
    for name in ESTIMATORS
}
METHODS = (
    "predict",
    "predict_proba",
    "predict_risk",
    "decision_function",
    "kernel_contributions",
    "position_scores",
    "predict_conllu",
    "explain",
)


@pytest.fixture(scope="module")
def fitted():
    """Every case, fitted once for all tests."""
    known = {}

    def fit(name):
        if name not in known:
            model, data, _ = CASES[name]
            known[name] = clone(model).fit(*data)
        return known[name]

    return fit


@pytest.fixture(params=CASES)
def pair(request, fitted, tmp_path):
    """A fitted model, what came back from its file, and rows to predict."""
    model = fitted(request.param)
    model.save(tmp_path / "model")
    return model, mk.load(tmp_path / "model"), CASES[request.param][2]


def same(a, b):
    """Whether two values are equal down to types, also inside of containers."""
    if isinstance(a, np.generic):  # files hold Python's own numbers
        a = a.item()
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        equal_nan = a.dtype.kind == "f"
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=equal_nan)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b or (isinstance(a, float) and np.isnan(a) and np.isnan(b))


def shapes(found):
    """Of predictions, which may be one array or one per sequence."""
    return [np.shape(part) for part in found]


def shown(model):
    """Fitted attributes that everybody may read, but for the documented exception.

    The dual point speaks of all the training rows, which a file knows nothing of.
    """
    names = [n for n in dir(model) if n.endswith("_") and not n.startswith("_")]
    names = [n for n in names if n != "dual_point_"]
    return {name: getattr(model, name) for name in names if hasattr(model, name)}


def test_every_estimator_is_tried():
    assert {name.split()[0] for name in CASES} == set(ESTIMATORS)


def test_answers_are_the_same_to_the_bit(pair):
    model, loaded, new = pair
    tried = 0
    for method in METHODS:
        if hasattr(model, method):
            arguments = () if method == "explain" else (new,)
            before = getattr(model, method)(*arguments)
            assert same(before, getattr(loaded, method)(*arguments)), method
            tried += 1
    assert tried


def test_class_and_parameters_come_back_but_for_code_and_paths(pair):
    model, loaded, _ = pair
    assert type(loaded) is type(model)
    before, after = model.get_params(deep=False), loaded.get_params(deep=False)
    assert list(before) == list(after)
    for name in set(before) - set(NEVER):
        assert same(before[name], after[name]), name


def test_fitted_attributes_come_back(pair):
    before, after = map(shown, pair[:2])
    assert list(before) == list(after)
    for name in before:
        assert same(before[name], after[name]), name


def test_a_loaded_model_is_cloned_fitted_and_saved_again(pair, request, tmp_path):
    model, loaded, new = pair
    data = CASES[request.node.callspec.params["pair"]][1]
    again = clone(loaded).fit(*data)
    assert same(model.predict(new), again.predict(new))
    loaded.save(tmp_path / "again")
    twice = mk.load(tmp_path / "again")
    assert same(model.predict(new), twice.predict(new))
    assert same(model.predict(new), loaded.fit(*data).predict(new))


def test_summaries_say_what_the_file_holds(pair):
    model, loaded, _ = pair
    before = model.summary()
    assert same(before, loaded.summary())
    assert before["estimator"] == type(model).__name__
    assert len(before) > 4


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if RULES[name]])
def test_parameters_that_no_fit_allows_are_neither_saved_nor_loaded(
    name, fitted, tmp_path
):
    path = tmp_path / "model"
    model = fitted(name)
    model.save(path)
    content, arrays = read_container(path)
    for parameter in RULES[name]:
        forged = content["parameters"] | {parameter: {"tuple": [["odd"]]}}
        write_container(path, content | {"parameters": forged}, arrays)
        with pytest.raises(ModelFileError, match=f"{parameter} .*odd"):
            mk.load(path)
    parameter = RULES[name][0]
    before = getattr(model, parameter)
    with pytest.raises((TypeError, ValueError), match=parameter):
        model.set_params(**{parameter: (["odd"],)}).save(path)
    model.set_params(**{parameter: before})


def test_unfitted_estimators_are_not_saved(tmp_path):
    for name, (model, _, _) in CASES.items():
        with pytest.raises(ValueError, match="not fitted yet"):
            clone(model).save(tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", [mk.MKLClassifier, mk.MKLRegressor])
def test_code_and_paths_are_neither_written_nor_read(kind, tmp_path):
    """A path in a file would be written to by the next fit."""
    path, secret = tmp_path / "model", str(tmp_path / "secret")
    storage = mk.Storage("memmap", folder=secret + "s")
    model = kind("rbf", storage=storage, checkpoint=secret, callback=lambda line: None)
    model.fit(X, y).save(path)
    assert secret.encode() not in path.read_bytes()
    loaded = mk.load(path)
    assert loaded.checkpoint is None and loaded.callback is None
    assert loaded.storage == mk.Storage("memmap")
    content, arrays = read_container(path)
    content["parameters"]["checkpoint"] = secret
    write_container(path, content, arrays)
    with pytest.raises(ModelFileError, match="does not know checkpoint"):
        mk.load(path)
    del content["parameters"]["checkpoint"]
    content["parameters"]["storage"]["folder"] = secret
    write_container(path, content, arrays)
    with pytest.raises(ModelFileError, match="fields folder"):
        mk.load(path)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of numbers that were forged
@pytest.mark.parametrize("change", [strange_values, strange_arrays])
@pytest.mark.parametrize("name", CASES)
def test_forged_files_are_refused_or_predict(name, change, fitted, tmp_path):
    """One sentence, or a model whose answers have the right form."""
    path, new = tmp_path / "model", CASES[name][2]
    model = fitted(name)
    model.save(path)
    expected = model.predict(new)
    refused = 0
    for forged in change(path, 40, np.random.default_rng(0)):
        try:
            loaded = mk.load(path)
        except ModelFileError as error:
            assert str(error).endswith("."), forged
            refused += 1
            continue
        assert type(loaded) is type(model)
        assert loaded.summary(), forged
        try:
            found = loaded.predict(new)
        except ValueError as error:
            # A forged number may be a fine model until a row overflows.
            assert "kernels are finite numbers, got an overflow" in str(error), forged
            continue
        assert shapes(found) == shapes(expected), forged
    assert refused > 5
