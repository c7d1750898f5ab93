"""One HTML file that needs nothing else, from a study or a model."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import Any

import numpy as np

from manykernels import __version__
from manykernels.base.disk import file_name, replacing
from manykernels.base.imports import require_library
from manykernels.files.saved import certificate
from manykernels.report.number_formats import number, tenths
from manykernels.study import Study
from manykernels.study.model_on_test_rows import ModelOnTestRows


class ModelWithoutTestRows:
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
    require_page_libraries()
    text = _page(_findings(subject, X, y, sample_weight), title)
    with replacing(path) as stream:
        stream.write(text.encode())


def require_page_libraries() -> None:
    """Raise unless a report can be made."""
    for library in ("jinja2", "matplotlib"):
        require_library(library, "plot")


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
        return ModelWithoutTestRows(subject)
    if X is None or y is None:
        raise TypeError(
            "a report of a model takes unseen rows X and their y, got one of the two; "
            "pass both or neither."
        )
    return ModelOnTestRows(subject, X, y, sample_weight)


def _page(found: Any, title: str | None) -> str:
    """The whole file as text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from manykernels.report.sections import N_COLORS, SECTIONS
    from manykernels.report.svg_figures import page_style

    page = Environment(
        loader=PackageLoader("manykernels.report", ""),
        autoescape=True,  # every name comes from a stranger's data
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # A number that is not finite would end the script of the page.
    page.policies["json.dumps_kwargs"] = {
        "sort_keys": False,
        "allow_nan": False,
        "separators": (",", ":"),
    }
    style, script = (_resource(name) for name in ("page.css", "page.js"))
    with page_style():
        sections = [
            (name, heading, content)
            for name, heading, make in SECTIONS
            if (content := make(found)) is not None
        ]
    return page.get_template("page.html").render(
        found=found,
        title=title or _title(found),
        lead=_lead(found),
        notes=_notes(found),
        figures=_key_figures(found),
        sections=[*sections, ("done", "What was done", {"facts": _facts(found)})],
        n_colors=N_COLORS,
        version=__version__,
        style=style,
        script=script,
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _resource(name: str) -> str:
    return files("manykernels.report").joinpath(name).read_text(encoding="utf-8")


def _title(found: Any) -> str:
    if isinstance(found, Study):
        return f"Does learning the weights pay? A study of {found.n_rows_:,} rows"
    name = type(found.model_).__name__
    if isinstance(found, ModelWithoutTestRows):
        return f"{name}: kernels, weights and certificate"
    return f"{name} on {found.n_rows_:,} unseen rows"


def _lead(found: Any) -> str:
    """What was done, in one sentence."""
    if isinstance(found, ModelWithoutTestRows):
        return "What the model learned; no rows were passed to judge it on."
    views = f"{len(found.contributions_)} views"
    if not isinstance(found, Study):
        return f"One fitted model, {views}, judged on rows that it was not fitted on."
    return (
        f"{len(found.titles_)} methods and {views}, {found.n_finished_} splits of "
        f"{found.n_rows_:,} rows: all of them chose their settings on "
        f"{found.inner_cv} folds of the training rows, and are judged on the others."
    )


def _score_text(found: Any, score: float) -> str:
    return tenths(score) if found.unit_[0] != 1.0 else number(score)


def _notes(found: Any) -> list[str]:
    """What must not be overlooked."""
    if not isinstance(found, Study):
        return []
    notes, summary = [], found.summary_
    best = int(np.argmax(summary["score"]))
    if summary["method"][best] != "mkl":
        score = _score_text(found, summary["score"][best])
        notes.append(f"Best on these splits: {summary['title'][best]}, {score}.")
    if found.n_finished_ < found.n_splits_:
        notes.append(
            f"The study was interrupted: {found.n_finished_} of {found.n_splits_} "
            "splits were finished, and no model of all rows was fitted."
        )
    return notes


def _key_figures(found: Any) -> list[tuple[str, str]]:
    """Names and values."""
    pairs: list[tuple[str, str]] = []
    if isinstance(found, Study):
        for k, method in enumerate(("learned", "uniform")):
            score = _score_text(found, found.summary_["score"][k])
            pairs.append((f"{found.metric_}, {method} weights", score))
        pairs.append(("rows", f"{found.n_rows_:,}"))
    elif isinstance(found, ModelOnTestRows):
        score = _score_text(found, found.score_)
        pairs.append((f"{found.metric_}, learned weights", score))
        pairs.append(("unseen rows", f"{found.n_rows_:,}"))
    if hasattr(found, "contributions_"):
        pairs.append(("views", str(len(found.contributions_))))
    model = getattr(found, "model_", None)
    if model is not None:
        used = np.atleast_2d(model.kernel_weights_).max(axis=0) > 0.0
        pairs.append(("kernels used", f"{used.sum()} of {len(used)}"))
        gap = certificate(model)["relative_gap"]
        pairs.append(("above the optimum, at most", f"{100 * gap:.2g} %"))
    return pairs


def _facts(found: Any) -> list[tuple[str, str]]:
    """What was done: names and values."""
    if isinstance(found, Study):
        pairs = _study_facts(found)
    elif isinstance(found, ModelOnTestRows):
        pairs = [("task", found.kind_), ("unseen rows", f"{found.n_rows_:,}")]
    else:
        pairs = [("rows", "none were passed: the figures are those of training alone")]
    model = getattr(found, "model_", None)
    if model is None:
        return pairs
    summary = model.summary()
    settings = ", ".join(f"{k} = {v}" for k, v in summary["settings"].items())
    pairs.append(("model", f"{summary['estimator']} ({settings})"))
    if summary.get("rows_by_view"):
        by_view = summary["rows_by_view"].items()
        counts = ", ".join(f"{name} {count:,}" for name, count in by_view)
        pairs.append(("rows by view", counts))
    pairs.append(("support rows", f"{summary['support_rows']:,}"))
    return pairs


def _study_facts(study: Study) -> list[tuple[str, str]]:
    splits = f"{study.n_finished_} splits"
    if isinstance(study.cv, int):
        splits += f": {study.cv} folds"
        splits += f", {study.n_repeats} times" * (study.n_repeats > 1)
    inner = f"{study.inner_cv} folds of the training rows of a split"
    pairs = [
        ("task", study.kind_),
        ("rows", f"{study.n_rows_:,}"),
        ("splits", splits),
        ("settings chosen on", inner),
        ("methods", ", ".join(study.titles_.values())),
        ("seed", str(study.random_state)),
    ]
    if hasattr(study, "p_"):
        pairs.append(("chosen on all rows", f"p = {study.p_:g}, C = {study.C_:g}"))
    return pairs
