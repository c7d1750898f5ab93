"""Dependency parsing of English (UD EWT, gold tags), after Figure 3 of the SPOM paper.

A standard SVM on all 507 templates against SVMs on the templates that it, or multiple
kernel learning, ranks highest. Each fit has a process of its own.
"""

from __future__ import annotations

import time
from typing import Any

from common import in_own_process, memory, parse, save, show

import manykernels as mk
from manykernels.estimators.arc_templates import arc_templates

CPU = "CPU, s"


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        epochs=(3, "epochs of the SVMs on chosen templates"),
        mkl_epochs=(2, "epochs of multiple kernel learning"),
        standard_epochs=(8, "epochs on the 116 standard templates"),
        C=(10.0, "weight of the losses in multiple kernel learning"),
        sizes=("107,253", "numbers of templates to keep"),
        limit=("1GB", "memory limit of the weights"),
        sentences=(0, "training sentences, 0 for all"),
        without_figure=(False, "only the standard templates"),
        without_crf=(False, "leave the conditional random field out"),
    )
    rows: dict[str, dict[str, Any]] = {}

    def run(name: str, **settings: Any) -> dict[str, Any]:
        rows[name] = in_own_process(fit, options.sentences, settings)
        found = rows[name]
        print(
            name, f"{100 * found['test'][0]:.2f}", f"{found['cpu']:.0f} s", flush=True
        )
        return found

    run("SVM, standard templates", n_epochs=options.standard_epochs)
    if not options.without_crf:
        run(
            "CRF, standard templates",
            n_epochs=options.standard_epochs,
            loss="crf",
        )
    if not options.without_figure:
        figure(run, options)
    report(rows, vars(options))


def figure(run: Any, options: Any) -> None:
    """All templates, then the best of them by two rankings."""
    common = {"memory_limit": options.limit, "n_epochs": options.epochs}
    svm = run("SVM, 507 templates", templates="full", **common)
    mkl = run(
        "MKL, 507 templates",
        templates="full",
        regulariser="sparse_mkl",
        C=options.C,
        **(common | {"n_epochs": options.mkl_epochs}),
    )
    for size in (int(text) for text in options.sizes.split(",")):
        for name, source in (("MKL", mkl), ("SVM", svm)):
            kept = source["selected"][:size]
            run(f"SVM, {len(kept)} templates by {name}", templates=kept, **common)


def fit(n_sentences: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Scores, CPU seconds and memory of one fit."""
    treebank = mk.datasets.load_ud_english_ewt()
    train = treebank.train[: n_sentences or None]
    warm_up(settings)
    parser = mk.DependencyParser(random_state=0, **settings)
    began = time.process_time()
    parser.fit(train)
    seconds = time.process_time() - began
    words = sum(map(len, train)) * parser.n_iter_
    return {
        "test": parser.evaluate(treebank.test),
        "dev": parser.evaluate(treebank.dev),
        "cpu": seconds,
        "words_per_cpu_second": words / seconds,
        "peak_gb": memory() / 1e9,
        "n_selected": len(parser.selected_templates_),
        "selected": parser.selected_templates_,
        "history": parser.history_,
    }


def warm_up(settings: dict[str, Any]) -> None:
    """Compile before the clock starts."""
    word = mk.datasets.Sentence.of(["a", "b"], ["X", "Y"], [2, 0])
    small = settings | {"memory_limit": "5MB", "n_epochs": 1}
    mk.DependencyParser(**small).fit([word, word]).predict([word])


def report(rows: dict[str, dict[str, Any]], options: dict[str, Any]) -> None:
    """Print the table and save it."""
    show(
        "UD English EWT, gold tags: unlabelled attachment score, %",
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
    for found in rows.values():
        found["selected"] = found["selected"][:20]
    save("parsing", options=options, templates=len(arc_templates("full")), results=rows)


if __name__ == "__main__":
    main()
