"""The verdict says no more than the splits do."""

import numpy as np
import pytest

from manykernels.study.study_data import Split
from manykernels.study.study_results import FinishedSplits, reliability, verdict
from manykernels.targets import Values


class GivenScores(FinishedSplits):
    """Splits whose scores are their records."""

    def score(self, method):
        return np.asarray(self.records[method])


def verdict_on(learned, uniform, **options):
    n = len(learned)
    split = Split(0, 0, np.arange(80), np.arange(20))
    scores = {"mkl": learned, "uniform": uniform}
    return verdict(
        GivenScores(Values.of(np.arange(3.0)), [split] * n, scores, None, None)
    )


@pytest.mark.parametrize(
    "gain, start",
    [
        ([0.05, 0.06, 0.05, 0.06], "Learning the weights gains 0.055 ± 0.004 of R²"),
        ([-0.05, -0.06, -0.05, -0.06], "Learning the weights loses 0.055 ± 0.004 of"),
        ([0.05, -0.04, 0.05, -0.05], "Learning the weights does not pay here: the"),
        ([0.0, 0.0], "Learning the weights does not pay here: the difference from"),
        (
            [0.05],
            "One split says nothing of chance: learning the weights changes +0.05",
        ),
    ],
)
def test_verdict(gain, start):
    assert verdict_on(0.5 + np.array(gain), np.full(len(gain), 0.5)).startswith(start)


def test_two_splits_that_agree_may_still_be_chance():
    # Student's quantile with one degree of freedom is 12.7.
    assert "within chance" in verdict_on(np.array([0.55, 0.58]), np.array([0.5, 0.5]))


def test_probabilities_that_are_right_lie_on_the_diagonal():
    rng = np.random.default_rng(0)
    claimed = rng.uniform(size=20000)
    true = (rng.uniform(size=20000) < claimed).astype(int)
    bins = list(reliability(np.column_stack([1 - claimed, claimed]), true))
    assert sum(one["rows"] for one in bins) == 20000 and len(bins) == 10
    for one in bins:
        assert abs(one["frequency"] - one["probability"]) < 4 * one["error"]
