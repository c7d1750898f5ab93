"""p-values: brute force, uniform where there is nothing, small where there is."""

import numpy as np
import pytest
from scipy.stats import false_discovery_control, kstest
from sklearn.base import clone

import manykernels as mk
from manykernels.banks.centered_alignment import target_alignments
from manykernels.study import KernelTest, permutation_test
from manykernels.study.permutation import _within, adjusted_p_values
from manykernels.study.refits import Refits

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 8))
Y = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")
MODEL = mk.MKLClassifier("rbf@0-1; rbf@2-3; rbf@4-7", p=1.1, random_state=0)


def test_weights_are_those_of_fits_with_shuffled_labels():
    found = permutation_test(MODEL, X, Y, n_permutations=5, tol=1e-6, random_state=3)
    rng = np.random.default_rng(np.random.RandomState(3).randint(2**31 - 1))
    tight = clone(MODEL).set_params(tol=1e-6)
    expected = tight.fit(X, Y).kernel_weights_
    np.testing.assert_allclose(found.statistic, expected, atol=2e-3)
    for weights in found.null:
        shuffled = tight.fit(X, Y[rng.permutation(60)]).kernel_weights_
        np.testing.assert_allclose(weights, shuffled, atol=2e-3)


def test_alignments_are_those_of_shuffled_targets():
    options = {"statistic": "alignment", "n_permutations": 5, "random_state": 3}
    found = permutation_test(MODEL, X, Y, **options)
    rng = np.random.default_rng(np.random.RandomState(3).randint(2**31 - 1))
    bank = Refits.of(MODEL, X, Y, None, 1e-3, 0).data.bank
    columns = np.stack([Y == "no", Y == "yes"], axis=1).astype(float)
    np.testing.assert_allclose(
        found.statistic, target_alignments(bank, columns), rtol=1e-5
    )
    for row in found.null:
        shuffled = columns[rng.permutation(60)]
        np.testing.assert_allclose(row, target_alignments(bank, shuffled), rtol=1e-5)


def test_p_values_are_counted():
    null = np.array([[0.1, 0.5], [0.3, 0.5], [0.2, 0.6], [0.05, 0.4]])
    found = KernelTest(["a", "b"], np.array([0.2, 0.5]), null)
    assert found.p_values.tolist() == [0.6, 0.8]  # ties count
    assert found.to_frame()["p_value"].tolist() == [0.6, 0.8]


def test_the_correction_is_benjamini_and_hochbergs():
    for seed in range(20):
        values = np.random.default_rng(seed).random(1 + seed).round(1 + seed % 3)
        expected = false_discovery_control(values)
        np.testing.assert_allclose(adjusted_p_values(values), expected)


@pytest.mark.parametrize("statistic", ["weight", "alignment"])
def test_p_values_are_uniform_where_there_is_nothing_to_learn(statistic):
    # One kernel's p-value of each data set: those of a data set are dependent.
    rng = np.random.default_rng(1)
    model = mk.MKLClassifier("rbf@0-1; rbf@2-5", p=1.5, random_state=0)
    found = []
    for seed in range(100):
        table, labels = rng.normal(size=(24, 6)), rng.random(24) < 0.5
        options = {"statistic": statistic, "n_permutations": 19, "random_state": seed}
        p_value = permutation_test(model, table, labels, **options).p_values[0]
        found.append(p_value - rng.random() / 20.0)  # a uniform number on a step
    assert kstest(found, "uniform").pvalue > 0.01


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (mk.MKLClassifier(), Y),
        (mk.MKLRegressor(), X[:, 0] + X[:, 1]),
        (mk.MKLSurvival(), (np.exp(X[:, 0] + X[:, 1]), RNG.random(60) < 0.8)),
    ],
    ids=["labels", "numbers", "times"],
)
def test_what_matters_is_found(model, y):
    model = clone(model).set_params(kernels="rbf@0-1; rbf@2-3; rbf@4-7")
    found = permutation_test(model, X, y, n_permutations=39, random_state=0)
    assert found.p_values[0] == 1 / 40 and found.p_values[1:].min() > 0.05


def test_a_wide_noise_kernel_has_the_weight_and_not_the_p_value():
    rng = np.random.default_rng(0)
    table = np.hstack([rng.normal(size=(150, 10)), rng.normal(size=(150, 200))])
    labels = table[:, :10].sum(axis=1) + 2.0 * rng.normal(size=150) > 0
    model = mk.MKLClassifier("rbf@0-9; rbf@10-209", random_state=0)
    found = permutation_test(model, table, labels, n_permutations=39, random_state=0)
    assert found.statistic[1] > found.statistic[0]
    assert found.p_values[0] == 1 / 40 and found.p_values[1] > 0.5


def test_views_and_other_groups():
    views = {"first": X[:, :2], "second": X[:, 2:5], "third": X[:, 5:]}
    model = mk.MKLClassifier("rbf; linear", random_state=0)
    options = {"n_permutations": 9, "random_state": 0}
    found = permutation_test(model, views, Y, groups="view", **options)
    assert found.names == ["first", "second", "third"]
    np.testing.assert_allclose(found.null.sum(axis=1), 1.0)
    each = permutation_test(model, views, Y, **options)
    texts = [name.split("@")[1] for name in each.names]
    again = permutation_test(model, views, Y, groups=texts, **options)
    order = [found.names.index(name) for name in again.names]
    np.testing.assert_allclose(again.null, found.null[:, order])


def test_sample_weights_go_with_their_targets():
    weight = np.where(Y == "yes", 2.0, 1.0)
    some = Refits.of(MODEL, X, Y, weight, 1e-3, 0).with_targets_of(np.arange(60)[::-1])
    np.testing.assert_array_equal(some.data.targets.weight, weight[::-1])
    np.testing.assert_array_equal(some.data.targets.target, (Y == "yes")[::-1])


def test_threads_change_nothing():
    one, two = (
        permutation_test(
            MODEL, X, Y, n_permutations=9, n_jobs=n_jobs, random_state=0
        ).null
        for n_jobs in (1, 2)
    )
    assert np.array_equal(one, two)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"statistic": "size"}, "statistic must be 'weight' or 'alignment'"),
        ({"n_permutations": 0}, "n_permutations must be a positive whole number"),
        ({"shuffle": "rows"}, "shuffle must be 'target' or 'view', got 'rows'"),
        ({"groups": "table"}, "groups must be 'view'"),
        ({"groups": ["a"]}, "a text for each of 3 kernels, got 1"),
    ],
)
def test_wrong_options_are_refused_in_a_sentence(options, message):
    with pytest.raises(ValueError, match=message):
        permutation_test(MODEL, X, Y, **options)


def test_times_have_no_alignment():
    model, y = mk.MKLSurvival("rbf@0-1"), (np.exp(X[:, 0]), np.ones(60, dtype=bool))
    with pytest.raises(ValueError, match="needs labels or numbers, got times"):
        permutation_test(model, X, y, statistic="alignment")


# --- rows of a view -------------------------------------------------------------------


def test_weights_are_those_of_fits_with_shuffled_rows_of_a_kernel():
    options = {"shuffle": "view", "n_permutations": 3, "tol": 1e-6, "random_state": 3}
    found = permutation_test(MODEL, X, Y, **options)
    rng = np.random.default_rng(np.random.RandomState(3).randint(2**31 - 1))
    tight = clone(MODEL).set_params(tol=1e-6)
    expected = tight.fit(X, Y).kernel_weights_
    np.testing.assert_allclose(found.statistic, expected, atol=2e-3)
    for kernel, columns in enumerate(([0, 1], [2, 3], [4, 5, 6, 7])):
        for line in range(3):
            table = X.copy()
            table[:, columns] = X[rng.permutation(60)][:, columns]
            shuffled = tight.fit(table, Y).kernel_weights_
            expected = shuffled[kernel]
            np.testing.assert_allclose(found.null[line, kernel], expected, atol=2e-3)


def test_kernels_of_a_view_are_shuffled_together():
    model = mk.MKLClassifier("rbf@0-1; linear@0-1; rbf@2-7", random_state=0)
    found = permutation_test(
        model, X, Y, shuffle="view", groups="view", n_permutations=39, random_state=0
    )
    assert found.names == ["0-1", "2-7"]
    assert found.p_values[0] == 1 / 40 and found.p_values[1] > 0.2


@pytest.mark.parametrize("statistic", ["weight", "alignment"])
def test_p_values_of_noise_next_to_signal_are_uniform(statistic):
    """Its rows mean nothing, though the targets do not: that is another hypothesis."""
    rng = np.random.default_rng(2)
    model = mk.MKLClassifier("rbf@0-1; rbf@2-5", p=1.5, random_state=0)
    found = []
    for seed in range(36):
        table = rng.normal(size=(24, 6))
        options = {"statistic": statistic, "n_permutations": 19, "random_state": seed}
        test = permutation_test(
            model, table, table[:, 0] > 0, shuffle="view", **options
        )
        found.append(test.p_values[1] - rng.random() / 20.0)
    assert kstest(found, "uniform").pvalue > 0.01


def test_rows_that_lack_a_view_keep_to_themselves():
    pattern = np.array([0, 1, 0, 1, 1, 0, 2])
    for seed in range(5):
        order = _within(pattern, np.random.default_rng(seed))
        assert sorted(order) == list(range(7))
        np.testing.assert_array_equal(pattern[order], pattern)
    views = {"a": X[:, :2].copy(), "b": X[:, 2:].copy()}
    views["a"][::4] = np.nan
    model = mk.MKLClassifier("rbf", nugget="shared", random_state=0)
    found = permutation_test(
        model, views, Y, shuffle="view", groups="view", n_permutations=19
    )
    assert found.names == ["a", "b", "nugget"]
    assert found.p_values[0] == 0.05 and found.p_values[2] == 1.0
