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
    text = _page(_read_findings(subject, X, y, sample_weight), title)
    with replacing(path) as stream:
        stream.write(text.encode())


def require_page_libraries() -> None:
    """Raise unless a report can be made."""
    for library in ("jinja2", "matplotlib"):
        require_library(library, "plot")


def _read_findings(subject: Any, X: Any, y: Any, sample_weight: Any) -> Any:
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


def _page(findings: Any, title: str | None) -> str:
    """The whole file as text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from manykernels.report.sections import N_COLORS, SECTIONS, score_format
    from manykernels.report.svg_figures import page_style

    page = Environment(
        loader=PackageLoader("manykernels.report", ""),
        autoescape=True,  # names come from data that may be hostile
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
    style, script = (
        files("manykernels.report").joinpath(name).read_text(encoding="utf-8")
        for name in ("page.css", "page.js")
    )
    with page_style():
        sections = [
            (name, heading, content)
            for name, heading, make in SECTIONS
            if (content := make(findings)) is not None
        ]
    return page.get_template("page.html").render(
        findings=findings,
        title=title,
        is_study=isinstance(findings, Study),
        has_rows=not isinstance(findings, ModelWithoutTestRows),
        score=score_format(findings) if hasattr(findings, "unit_") else None,
        model=_model_facts(getattr(findings, "model_", None)),
        sections=sections,
        n_colors=N_COLORS,
        version=__version__,
        style=style,
        script=script,
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _model_facts(model: Any) -> dict[str, Any] | None:
    """Its summary, how many kernels it uses, and its distance from the optimum."""
    if model is None:
        return None
    used = np.atleast_2d(model.kernel_weights_).max(axis=0) > 0.0
    return {
        **model.summary(),
        "n_kernels": len(used),
        "n_used": int(used.sum()),
        "gap": 100 * certificate(model)["relative_gap"],
    }
