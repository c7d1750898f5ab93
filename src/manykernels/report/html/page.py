"""One HTML file that needs nothing else, from a study or a model."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from manykernels import __version__
from manykernels.base.disk import file_name, replacing
from manykernels.files.saved import certificate
from manykernels.report.html import kernels, results, rows
from manykernels.report.html.drawing import number, tenths
from manykernels.report.html.markup import Markup, tag
from manykernels.report.html.parts import Section, facts
from manykernels.study import Study
from manykernels.study.unseen import Unseen

SECTIONS: tuple[Callable[[Any], Section | None], ...] = (
    results.methods,
    kernels.importance,
    kernels.likeness,
    results.confusion,
    results.values,
    results.calibration,
    results.missing,
    rows.places,
    rows.contributions,
    kernels.path,
    kernels.stability,
    kernels.convergence,
)


class Alone:
    """A model without rows to judge it on."""

    def __init__(self, model: Any) -> None:
        self.model_ = model
        gap = certificate(model)["relative_gap"]
        self.verdict_ = (
            f"The model is at most {100 * gap:.2g} % above the optimum of its problem; "
            "what its kernels are worth shows on unseen rows, of which none were "
            "passed."
        )


def write_report(
    subject: Any,
    path: Any,
    X: Any = None,
    y: Any = None,
    *,
    sample_weight: Any = None,
    title: str | None = None,
) -> None:
    """Write a study, or a fitted model on unseen rows, as one HTML file.

    The file has no links to the outside and runs no script but its own.

    Parameters
    ----------
    subject : Study or fitted MKLClassifier, MKLRegressor, MKLSurvival or a relative
    path : str or path
        Written whole or not at all.
    X, y : as in fit
        Of a model: rows that it has not seen. Of a study: left out.
    sample_weight : array of shape (n,), optional
    title : str, optional

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> import manykernels as mk
    >>> X, y = load_iris(return_X_y=True)
    >>> model = mk.MKLClassifier("rbf@0-1; rbf@2-3", random_state=0)
    >>> path = tempfile.mkdtemp() + "/report.html"
    >>> write_report(model.fit(X[::2], y[::2]), path, X[1::2], y[1::2])
    >>> open(path, encoding="utf-8").read(15)
    '<!DOCTYPE html>'
    """
    path = file_name(path)
    text = page(_findings(subject, X, y, sample_weight), title)
    with replacing(path) as stream:
        stream.write(text.encode())


def _findings(subject: Any, X: Any, y: Any, sample_weight: Any) -> Any:
    subject._require_fitted()
    if isinstance(subject, Study):
        if X is not None or y is not None:
            raise TypeError(
                "a study has its rows already, got X or y; leave them out of its "
                "report."
            )
        return subject
    if X is None and y is None:
        return Alone(subject)
    if X is None or y is None:
        raise TypeError(
            "a report of a model takes unseen rows X and their y, got one of the two; "
            "pass both or neither."
        )
    return Unseen(subject, X, y, sample_weight)


def page(found: Any, title: str | None = None) -> str:
    """The whole file as text."""
    title = title or _title(found)
    shown = [section for make in SECTIONS if (section := make(found)) is not None]
    shown.append(Section("done", "What was done", facts(_done(found))))
    style, script = (_resource(name) for name in ("page.css", "page.js"))
    head = tag(
        "head",
        Markup('<meta charset="utf-8">'),
        Markup(
            f'<meta http-equiv="Content-Security-Policy" content="{_policy(script)}">'
        ),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        tag("title", title),
        tag("style", Markup(style)),
    )
    body = tag(
        "body",
        tag("a", "Skip to the results", href="#main", class_="skip"),
        tag(
            "div",
            _header(found, title),
            tag("div", _contents(shown), _main(shown), class_="body"),
            _footer(),
            class_="sheet",
        ),
        tag("script", Markup(script)),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _policy(script: str) -> str:
    """Nothing is fetched, and no script runs but the one of this file."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _resource(name: str) -> str:
    return files("manykernels.report.html").joinpath(name).read_text(encoding="utf-8")


def _title(found: Any) -> str:
    if isinstance(found, Study):
        return f"Does learning the weights pay? A study of {found.n_rows_:,} rows"
    name = type(found.model_).__name__
    if isinstance(found, Alone):
        return f"{name}: kernels, weights and certificate"
    return f"{name} on {found.n_rows_:,} unseen rows"


def _header(found: Any, title: str) -> Markup:
    button = tag(
        "button", "Light or dark", type="button", id="theme", class_="tool", hidden=True
    )
    figures = [
        tag("div", tag("dt", name), tag("dd", value)) for name, value in _figures(found)
    ]
    return tag(
        "header",
        tag("div", tag("span", "manykernels report"), button, class_="top"),
        tag("h1", title),
        tag("p", _lead(found), class_="lead"),
        tag("p", found.verdict_, class_="verdict", id="verdict"),
        [tag("p", note, class_="lead") for note in _notes(found)],
        tag("dl", figures, class_="figures"),
    )


def _lead(found: Any) -> str:
    """What was done, in one sentence."""
    if isinstance(found, Alone):
        return "What the model learned; no rows were passed to judge it on."
    views = f"{len(found.contributions_)} views"
    if not isinstance(found, Study):
        return f"One fitted model, {views}, judged on rows that it was not fitted on."
    return (
        f"{len(found.titles_)} methods and {views}, {found.n_finished_} splits of "
        f"{found.n_rows_:,} rows: all of them chose their settings on "
        f"{found.inner_cv} folds of the training rows, and are judged on the others."
    )


def _notes(found: Any) -> list[str]:
    """What must not be overlooked."""
    notes = []
    if isinstance(found, Study):
        summary = found.summary_
        best = int(np.argmax(summary["score"]))
        if summary["method"][best] != "mkl":
            form = tenths if found.unit_[0] != 1.0 else number
            notes.append(
                f"Best on these splits: {summary['title'][best]}, "
                f"{form(summary['score'][best])}."
            )
        if found.n_finished_ < found.n_splits_:
            notes.append(
                f"The study was interrupted: {found.n_finished_} of {found.n_splits_} "
                "splits were finished, and there is no model of all rows."
            )
    return notes


def _figures(found: Any) -> list[tuple[str, str]]:
    """Key figures: what, and how much."""
    pairs: list[tuple[str, str]] = []
    if hasattr(found, "n_rows_"):
        form = tenths if found.unit_[0] != 1.0 else number
        study = isinstance(found, Study)
        score = found.summary_["score"][0] if study else found.score_
        pairs.append((f"{found.metric_}, learned weights", form(score)))
        if study:
            pairs.append(
                (f"{found.metric_}, uniform weights", form(found.summary_["score"][1]))
            )
        pairs.append(("rows" if study else "unseen rows", f"{found.n_rows_:,}"))
        pairs.append(("views", str(len(found.contributions_))))
    model = getattr(found, "model_", None)
    if model is not None:
        used = np.atleast_2d(model.kernel_weights_).max(axis=0) > 0.0
        pairs.append(("kernels used", f"{used.sum()} of {len(used)}"))
        gap = certificate(model)["relative_gap"]
        pairs.append(("above the optimum, at most", f"{100 * gap:.2g} %"))
    return pairs


def _contents(shown: Sequence[Section]) -> Markup:
    items = [(one.name, one.title) for one in shown]
    links = [tag("li", tag("a", title, href=f"#{name}")) for name, title in items]
    return tag("nav", tag("ul", links), aria_label="Contents")


def _main(shown: Sequence[Section]) -> Markup:
    return tag("main", [one.render() for one in shown], id="main")


def _done(found: Any) -> list[tuple[str, Any]]:
    pairs = _done_study(found) if isinstance(found, Study) else _done_unseen(found)
    model = getattr(found, "model_", None)
    if model is None:
        return pairs
    summary = model.summary()
    settings = ", ".join(f"{k} = {v}" for k, v in summary["settings"].items())
    pairs.append(("model", f"{summary['estimator']} ({settings})"))
    if summary.get("rows_by_view"):
        by_view = summary["rows_by_view"].items()
        told = ", ".join(f"{name} {count:,}" for name, count in by_view)
        pairs.append(("rows by view", told))
    pairs.append(("support rows", f"{summary['support_rows']:,}"))
    return pairs


def _done_unseen(found: Any) -> list[tuple[str, Any]]:
    if isinstance(found, Alone):
        return [("rows", "none were passed: what follows speaks of training alone")]
    return [("task", found.kind_), ("unseen rows", f"{found.n_rows_:,}")]


def _done_study(study: Any) -> list[tuple[str, Any]]:
    splits = f"{study.n_finished_} splits"
    if isinstance(study.cv, int):
        splits += f": {study.cv} folds"
        splits += f", {study.n_repeats} times" * (study.n_repeats > 1)
    pairs = [
        ("task", study.kind_),
        ("rows", f"{study.n_rows_:,}"),
        ("splits", splits),
        (
            "settings chosen on",
            f"{study.inner_cv} folds of the training rows of a split",
        ),
        ("methods", ", ".join(study.titles_.values())),
        ("seed", str(study.random_state)),
    ]
    if hasattr(study, "p_"):
        pairs.append(("chosen on all rows", f"p = {study.p_:g}, C = {study.C_:g}"))
    return pairs


def _footer() -> Markup:
    note = (
        f"Written by manykernels {__version__}. This file is whole: it loads nothing, "
        "and works without a network. Figures about unseen rows come from rows that "
        "the model in question was not trained on."
    )
    return tag("footer", tag("p", note))
