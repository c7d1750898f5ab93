"""Pictures show what the model holds, and fail with a sentence."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from sklearn.datasets import load_iris

from manykernels import MKLClassifier
from manykernels.report import (
    plot_alignments,
    plot_convergence,
    plot_fit,
    plot_gap,
    plot_weights,
)
from manykernels.report.pictures import COLORS, weight_bars
from manykernels.solvers.loop import Epoch

HISTORY = [
    Epoch(1, 0.1, 2.0, 0.5, 10),
    Epoch(2, 0.2, 2.5, 0.4, 10),
    Epoch(3, 0.3, 1.0, 0.01, 10),
]


@pytest.fixture
def ax():
    return Figure().add_subplot()


@pytest.fixture(scope="module")
def model():
    X, y = load_iris(return_X_y=True)
    return MKLClassifier("rbf@0; rbf@1; rbf@2", random_state=0).fit(X, y)


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_bars_add_up_to_all_weights(limit):
    bars = weight_bars(list("abcd"), [0.1, 0.4, 0.2, 0.3], list("xyxy"), limit)
    assert sum(bar.weight for bar in bars) == pytest.approx(1.0)
    assert bars[0].label == "b"


def test_weights_are_drawn_largest_first_in_group_colors(ax):
    plot_weights(ax, ["a", "b", "c"], [0.2, 0.5, 0.3], ["good", "bad", "good"])
    widths = {round(bar.get_y() + bar.get_height() / 2): bar for bar in ax.patches}
    assert [widths[i].get_width() for i in range(3)] == [0.5, 0.3, 0.2]
    assert to_hex(widths[0].get_facecolor()) == COLORS[1].lower()
    assert to_hex(widths[1].get_facecolor()) == COLORS[0].lower()
    assert [t.get_text() for t in ax.get_yticklabels()] == ["b", "c", "a"]
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == [
        "good (2 kernels, 50% of the weight)",
        "bad (1 kernels, 50% of the weight)",
    ]


def test_no_groups_no_legend(ax):
    plot_weights(ax, ["a"], [1.0])
    assert ax.get_legend() is None


def test_convergence_shows_best_objective_and_its_bound(ax):
    plot_convergence(ax, HISTORY)
    objective, bound = ax.lines
    np.testing.assert_allclose(objective.get_ydata(), [2.0, 2.0, 1.0])
    np.testing.assert_allclose(bound.get_ydata(), [1.0, 1.2, 0.99])


def test_gap_is_logarithmic_with_the_tolerance(ax):
    plot_gap(ax, HISTORY, tol=0.02)
    gaps, tolerance = ax.lines
    np.testing.assert_allclose(gaps.get_ydata(), [0.5, 0.4, 0.01])
    assert set(tolerance.get_ydata()) == {0.02}
    assert ax.get_yscale() == "log"


def test_gap_of_zero_is_drawn(ax):
    plot_gap(ax, [Epoch(1, 0.1, 0.0, 0.0, 0)])
    assert ax.get_yscale() == "linear"


def test_fit_is_drawn_and_written(model, tmp_path):
    figure = plot_fit(model, groups=["sepal", "sepal", "petal"], title="iris")
    path = tmp_path / "fit.png"
    figure.savefig(path)
    assert path.read_bytes().startswith(b"\x89PNG")
    weights = figure.axes[0]
    assert sum(bar.get_width() for bar in weights.patches) == pytest.approx(1.0)
    assert len(figure.axes[1].lines[0].get_xdata()) == model.n_iter_


def test_unfitted_model_is_refused():
    with pytest.raises(ValueError, match="fitted MKLClassifier.*call fit first"):
        plot_fit(MKLClassifier())


def test_lengths_must_agree(ax):
    with pytest.raises(ValueError, match="one entry per kernel, got 2, 1 and 2"):
        plot_weights(ax, ["a", "b"], [1.0])


def test_matplotlib_is_loaded_only_when_needed():
    import subprocess
    import sys

    code = "import sys, manykernels.report; print('matplotlib' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_alignments_stand_next_to_those_they_are_like():
    alike = np.array([[1.0, 0.1, 0.9], [0.1, 1.0, 0.2], [0.9, 0.2, 1.0]])
    figure = plot_alignments(alike, ["a", "b", "c"])
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert abs(names.index("a") - names.index("c")) == 1
    order = ["abc".index(name) for name in names]
    shown = figure.axes[0].collections[0].get_array()
    np.testing.assert_array_equal(shown, alike[np.ix_(order, order)])
    assert "0.90" in {text.get_text() for text in figure.axes[0].texts}


def test_many_alignments_have_no_labels(ax):
    assert plot_alignments(np.eye(60), ax=ax) is ax.figure
    assert not ax.get_yticklabels() and not ax.texts


@pytest.mark.parametrize(
    ("values", "names", "message"),
    [
        (np.ones((2, 3)), None, r"got \(2, 3\)"),
        (np.eye(3), ["a"], "one entry for each of 3 kernels, got 1"),
    ],
)
def test_alignments_of_another_shape_are_refused(values, names, message):
    with pytest.raises(ValueError, match=message):
        plot_alignments(values, names)
