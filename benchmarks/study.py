"""A study and its report in one call: how long they take, and what they say.

`mk.Study` with its default settings, five splits, all methods and kernels, two splits
at a time, on breast cancer subtypes (150 patients, three views) and on handwritten
numerals (2,000 images, six views); then the report as one HTML file. `--images` draws
both reports with chromium for the documentation.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
from common import parse, save, show, timed
from loaders import load_mfeat, load_tcga_breast
from sklearn.utils import Bunch

import manykernels as mk

JOBS = 2
IMAGES = Path(__file__).parents[1] / "docs" / "images"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
# Where a picture of the page begins and ends, in pixels.
WINDOWS = {"tcga_breast": (1100, 1330), "mfeat": (1100, 1330)}


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        quick=(False, "the smaller data set, two splits"),
        images=(False, "draw the reports"),
    )
    mk.warm_up()
    found = {}
    sets = {"tcga_breast": breast_cancer, "mfeat": numerals}
    for name in list(sets)[: 1 if options.quick else 2]:
        cv = 2 if options.quick else 5
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / f"{name}.html"
            found[name] = measure(sets[name](), cv, page)
            if options.images:
                draw(page, IMAGES / f"report_{name}.png", *WINDOWS[name])
    columns = ["", "rows", "kernels", "study, s", "report, s", "bytes", "verdict"]
    show("Studies", columns, [[name, *row(one)] for name, one in found.items()])
    save("study", seeds=[0], jobs=JOBS, sets=found)


def breast_cancer() -> Bunch:
    """Tables with the names of patients and genes."""
    data = load_tcga_breast()
    views = {
        name: pd.DataFrame(table, data.samples, data.feature_names[name])
        for name, table in data.views.items()
    }
    return Bunch(views=views, target=pd.Series(data.target, data.samples))


def numerals() -> Bunch:
    """As they come."""
    data = load_mfeat()
    return Bunch(views=data.views, target=data.target)


def measure(data: Bunch, cv: int, page: Path) -> dict[str, Any]:
    """Seconds, and what was found."""
    study = mk.Study(cv=cv, n_jobs=JOBS)
    _, seconds = timed(lambda: study.fit(data.views, data.target))
    _, writing = timed(lambda: study.report(page))
    methods = study.summary_.lines()
    return {
        "rows": study.n_rows_,
        "views": len(study.contributions_),
        "kernels": len(study.model_.kernel_names_),
        "splits": study.n_splits_,
        "seconds": seconds,
        "report_seconds": writing,
        "bytes": page.stat().st_size,
        "verdict": study.verdict_,
        "methods": [
            {key: line[key] for key in ("title", "score", "std_error", "seconds")}
            | {"gain": line["gain"], "gain_error": line["gain_error"]}
            for line in methods
        ],
        "importance": {
            name: {"share": float(share), "std_error": float(error), "weight": float(w)}
            for name, share, error, w in zip(
                study.view_importance_.names,
                study.view_importance_.share,
                study.view_importance_.std_error,
                study.view_importance_.weight,
                strict=True,
            )
        },
    }


def row(one: dict[str, Any]) -> list[Any]:
    """A line of the table."""
    keys = ("rows", "kernels", "seconds", "report_seconds", "bytes", "verdict")
    return [one[key] for key in keys]


def draw(page: Path, image: Path, width: int, height: int) -> None:
    """A picture of the top of a page."""
    browser = shutil.which("chromium")
    if browser is None:
        raise FileNotFoundError("expected chromium to draw with, got none; install it")
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                browser,
                *FLAGS,
                f"--user-data-dir={profile}",
                f"--window-size={width},{height}",
                f"--screenshot={image}",
                page.resolve().as_uri(),
            ],
            check=True,
            stderr=subprocess.DEVNULL,
        )


if __name__ == "__main__":
    main()
