"""What a notebook shows: a card above scikit-learn's diagram, figures, bars."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn import config_context
from sklearn.datasets import load_iris

import manykernels as mk
from manykernels.inputs.reporting import EpochBar
from manykernels.report import (
    plot_convergence,
    plot_fit,
    plot_gap,
    plot_weights,
)
from manykernels.solvers.loop import Epoch

X, Y = load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def model():
    kernels = "rbf@0-1; rbf@2-3; linear"
    return mk.MKLClassifier(kernels, random_state=0).fit(X[::2], Y[::2])


def test_a_fitted_model_shows_what_it_learned_and_the_diagram(model):
    text = model._repr_mimebundle_()["text/html"]
    assert "sk-estimator" in text and text.index("mk-card") < text.index("sk-top")
    heaviest = model.kernel_names_[int(model.kernel_weights_.argmax())]
    assert heaviest in text and f"{len(model.support_)} support rows" in text
    gap = 100 * model.duality_gap_ / model.objective_
    assert f"at most {gap:.2g} % above the optimum" in text
    assert model._repr_html_().startswith('<div class="mk-card">')
    with config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_()


def test_importance_is_shown_where_it_is_known(model):
    assert "share on unseen rows" not in model._repr_html_()
    model.importance_ = mk.kernel_importance(model, X[1::2], Y[1::2])
    assert "share on unseen rows" in model._repr_html_()
    assert not hasattr(model.fit(X[::2], Y[::2]), "importance_")


def test_what_is_not_fitted_is_as_ever():
    text = mk.MKLClassifier()._repr_html_()
    assert "mk-card" not in text and "sk-top" in text


def test_strange_names_are_text_and_many_kernels_are_few_bars():
    kernels = [mk.kernels.RBF(columns=[0], name="<script>")]
    kernels += [mk.kernels.RBF(gamma=g) for g in np.logspace(-2, 2, 12)]
    text = mk.MKLRegressor(kernels, p=1.9).fit(X, X[:, 0])._repr_html_()
    card = text[: text.index("sk-top")]
    assert "&lt;script&gt;" in card and "<script>" not in card
    assert "and 5 lighter kernels" in card


def test_a_figure_is_the_last_line_of_a_cell(model):
    figure = plot_fit(model)
    assert figure._repr_png_().startswith(b"\x89PNG")
    axes = figure.axes[0]
    assert plot_weights(axes, ["a"], [1.0]) is figure
    assert plot_gap(axes, model.history_) is plot_convergence(axes, model.history_)


class Page:
    """What a notebook would show."""

    def __init__(self):
        self.pages = []
        self.HTML = str

    def display(self, page, display_id):
        self.pages.append(page)
        return SimpleNamespace(update=self.pages.append)


@pytest.fixture
def page(monkeypatch):
    page = Page()
    shell = SimpleNamespace(kernel=1)
    fake = SimpleNamespace(get_ipython=lambda: shell, display=page)
    monkeypatch.setitem(sys.modules, "IPython", fake)
    return page


def test_a_fit_shows_a_bar_in_a_notebook(page, capsys):
    model = mk.MKLClassifier("rbf@0; rbf@2", tol=1e-4, verbose=1, random_state=0)
    model.fit(X, Y)
    assert 0 < len(page.pages) == model.n_iter_
    assert all(shown.startswith('<progress max="1"') for shown in page.pages)
    assert 'value="1.000"' in page.pages[-1]
    assert "epoch" not in capsys.readouterr().err


def test_a_search_shows_a_bar_in_a_notebook(page, capsys):
    mk.weight_stability(
        mk.MKLClassifier("rbf@0; rbf@2"), X, Y, n_pairs=3, verbose=1, random_state=0
    )
    assert page.pages[-1].endswith("halves of the rows: 6 of 6")
    assert capsys.readouterr().err == ""


def test_elsewhere_lines_are_printed(capsys):
    mk.MKLClassifier("rbf@0; rbf@2", verbose=1, random_state=0).fit(X, Y)
    assert "epoch   1" in capsys.readouterr().err


def test_how_far_a_gap_has_fallen():
    bar = EpochBar(SimpleNamespace(update=lambda *_: None), 1e-2)
    gaps = [1.0, 0.1, 0.01]
    found = [bar.share(Epoch(k, 0.1, 1.0, gap, 1)) for k, gap in enumerate(gaps)]
    np.testing.assert_allclose(found, [0.0, 0.5, 1.0])
