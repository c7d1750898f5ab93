"""Dependency parsing of English (UD EWT, gold tags), after Figure 3 of the SPOM paper.

A standard SVM on all 507 templates against SVMs on the templates that multiple kernel
learning keeps, and on as many as it, or that SVM, ranks highest; and the paper's own
steps, one proximal step after each sentence. Each fit has a process of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from common import in_own_process, memory, parse, save, show

import manykernels as mk
from manykernels.structured import OnlineProximal
from manykernels.structured.feature_templates import ARC_TEMPLATES

CPU = "CPU, s"
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "parsing.png"
Rows = dict[str, dict[str, Any]]
Run = Callable[..., dict[str, Any]]


def main() -> None:
    """Measure, print, draw and store."""
    options = parse(
        __doc__,
        epochs=(3, "epochs of the SVMs on all or chosen templates"),
        mkl_epochs=(2, "epochs of multiple kernel learning"),
        standard_epochs=(8, "epochs on the standard templates"),
        path=("10,30,100", "weights C of the losses in multiple kernel learning"),
        refits=("10,30", "those of them whose templates are all learned anew"),
        sizes=("107,207,307,407", "numbers of templates to keep"),
        limit=("1GB", "memory limit of the weights"),
        sentences=(0, "training sentences, 0 for all"),
        paper_C=(10.0, "weight of the losses with the paper's own steps"),
        without_figure=(False, "only the standard templates"),
        without_crf=(False, "leave the conditional random field out"),
    )
    rows: Rows = {}

    def run(name: str, **settings: Any) -> dict[str, Any]:
        found = rows[name] = in_own_process(fit, options.sentences, settings)
        scores = [f"{100 * found[part][0]:.2f}" for part in ("dev", "test")]
        kept = f"{found['n_selected']} kept"
        print(name, *scores, f"{found['cpu']:.0f} s", kept, flush=True)
        store(rows, None)
        return found

    run("SVM, standard templates", n_epochs=options.standard_epochs)
    if not options.without_crf:
        run("CRF, standard templates", n_epochs=options.standard_epochs, loss="crf")
    curves = None if options.without_figure else figure(run, options)
    if curves is not None:
        draw(curves)
    store(rows, curves)
    report(rows)


def figure(run: Run, options: Any) -> dict[str, list[tuple[int, float]]]:
    """(templates, UAS without punctuation) of SVMs on templates chosen in two ways."""
    common = {"memory_limit": options.limit, "n_epochs": options.epochs}
    svm = run("SVM, 507 templates", templates="full", **common)
    mkl = mkl_path(run, options)
    run(
        f"The paper's steps, C = {options.paper_C:g}",
        templates="full",
        regularizer="sparse_mkl",
        C=options.paper_C,
        solver=OnlineProximal(update="gradient"),
        memory_limit=options.limit,
        n_epochs=options.mkl_epochs,
    )
    for C in numbers(options.refits):
        kept = mkl[C]["selected"]
        run(
            f"SVM, all {len(kept)} templates of MKL, C = {C:g}",
            templates=kept,
            **common,
        )
    all_of_them = (507, svm["test"][1])
    curves: dict[str, list[tuple[int, float]]] = {"MKL": [], "SVM": []}
    for size in map(int, numbers(options.sizes)):
        for name, source in (("MKL", least(mkl, size)), ("SVM", svm)):
            kept = source["selected"][:size]
            found = run(
                f"SVM, {len(kept)} templates by {name}", templates=kept, **common
            )
            curves[name].append((len(kept), found["test"][1]))
    return {name: [*points, all_of_them] for name, points in curves.items()}


def mkl_path(run: Run, options: Any) -> dict[float, dict[str, Any]]:
    """The penalized models by C: the larger C, the more templates they keep."""
    settings = {"memory_limit": options.limit, "n_epochs": options.mkl_epochs}
    return {
        C: run(
            f"MKL, C = {C:g}",
            templates="full",
            regularizer="sparse_mkl",
            C=C,
            **settings,
        )
        for C in numbers(options.path)
    }


def least(path: dict[float, dict[str, Any]], size: int) -> dict[str, Any]:
    """The sparsest model of the path with so many templates, or the least sparse."""
    enough = [C for C in sorted(path) if path[C]["n_selected"] >= size]
    return path[enough[0] if enough else max(path)]


def numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def draw(curves: dict[str, list[tuple[int, float]]]) -> None:
    """The bottom right part of the paper's figure."""
    picture, axis = plt.subplots(figsize=(6, 4))
    for name, points in curves.items():
        sizes, scores = zip(*points, strict=True)
        axis.plot(sizes, [100 * s for s in scores], marker="o", label=f"by {name}")
    axis.set_xlabel("templates")
    axis.set_ylabel("test UAS without punctuation, %")
    axis.legend(title="chosen")
    axis.grid(alpha=0.3)
    picture.tight_layout()
    picture.savefig(PICTURE, dpi=120)


def fit(n_sentences: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Scores, CPU seconds and memory of one fit."""
    treebank = mk.datasets.load_ud_english_ewt()
    train = treebank.train[: n_sentences or None]
    warm_up(settings)
    parser = mk.DependencyParser(label_templates=None, random_state=0, **settings)
    began = time.process_time()
    parser.fit(train)
    seconds = time.process_time() - began
    words = sum(map(len, train)) * parser.n_iter_
    return {
        "test": _unlabeled(parser.evaluate(treebank.test)),
        "dev": _unlabeled(parser.evaluate(treebank.dev)),
        "cpu": seconds,
        "words_per_cpu_second": words / seconds,
        "peak_gb": memory() / 1e9,
        "n_selected": len(parser.selected_templates_),
        "selected": parser.selected_templates_,
        "history": parser.history_,
    }


def _unlabeled(scores: Any) -> list[float]:
    return [scores.uas, scores.uas_without_punctuation, scores.sentences]


def warm_up(settings: dict[str, Any]) -> None:
    """Compile before the clock starts."""
    word = mk.structured.Sentence.of(["a", "b"], ["X", "Y"], [2, 0])
    small = settings | {"memory_limit": "5MB", "n_epochs": 1}
    mk.DependencyParser(**small).fit([word, word]).predict([word])


def store(rows: Rows, curves: Any) -> None:
    """Keep what is there so far; the strongest templates are enough."""
    save(
        "parsing",
        seeds=[0],
        templates=len(ARC_TEMPLATES.read("full")),
        results={
            k: one | {"selected": one["selected"][:20]} for k, one in rows.items()
        },
        figure=curves,
    )


def report(rows: Rows) -> None:
    """Print the table."""
    show(
        "UD English EWT, gold tags: unlabeled attachment score, %",
        ["", "dev", "test", "no punct.", CPU, "words/CPU s", "peak, GB", "kept"],
        [
            [
                name,
                100.0 * found["dev"][0],
                100.0 * found["test"][0],
                100.0 * found["test"][1],
                found["cpu"],
                found["words_per_cpu_second"],
                found["peak_gb"],
                found["n_selected"],
            ]
            for name, found in rows.items()
        ],
    )


if __name__ == "__main__":
    main()
