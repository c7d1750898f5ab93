"""Tables of the pages about products of kernels, sequences and trees."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
from contest.tables import Load, Rows

from tables.texts import hundreds, spread, two


def recovery(load: Load, _: str) -> Rows:
    """Planted monomials found."""
    lines = load("interactions")["recovery"]
    head = ["columns", "products", "noise", "exact"]
    head += ["true terms among the first 12 (least)", "terms (mean)"]
    head += ["largest relative test error", "seconds (median)"]
    rows: Rows = [head]
    for r, noise in dict.fromkeys((one["r"], one["noise"]) for one in lines):
        own = [one for one in lines if (one["r"], one["noise"]) == (r, noise)]
        errors = [one["relative test error"] for one in own]
        exact = f"{sum(error <= 1e-6 for error in errors)} of {len(own)}"
        rows.append(
            [
                f"{r:,}",
                f"{comb(r + 3, 3):,}",
                f"{100 * noise:.0f} %",
                None if noise else exact,
                f"{min(one['true in first 12'] for one in own)} of 10",
                f"{np.mean([one['terms'] for one in own]):.3g}",
                two(max(errors)),
                two(float(np.median([one["seconds"] for one in own]))),
            ]
        )
    return rows


def terms_grid(load: Load, _: str) -> Rows:
    """R2 of the defaults and of a lasso on all pairs, means over seeds."""
    head = ["columns", "r", "n", "SNR", "ours", "LassoCV", "difference"]
    rows: Rows = [[*head, "lists", "terms", "true terms", "CPU seconds"]]
    for cell in load("terms")["cells"]:
        rows.append(
            [
                *(str(cell[name]) for name in ("columns", "r", "n", "snr")),
                f"{cell['ours']:.2f}",
                f"{cell['lasso']:.2f}",
                f"{cell['difference']:+.3f}",
                f"{cell['lists']} of {cell['seeds']}",
                f"{cell['terms']:.0f}",
                f"{cell['true terms']:.1f}",
                f"{cell['seconds']:.1f}",
            ]
        )
    return rows


def mirror_objective(load: Load, _: str) -> Rows:
    """The lowest objective within the limit, by data set."""
    curves = load("rmd_figure_1")["curves"]
    methods = list(next(iter(curves.values())))
    return [["data set", *methods]] + [
        [name, *(float(one[method]["objective"][-1]) for method in methods)]
        for name, one in curves.items()
    ]


def mirror_planted(load: Load, columns: str) -> Rows:
    """Mean test error over variance by the number of columns."""
    saved = load("rmd_figure_2")
    rows: Rows = [["columns", *saved["methods"]]]
    for size in map(int, columns.split()):
        runs = np.array(saved["error"][saved["columns"].index(size)], dtype=float)
        rows.append([size, *(_tiny(error) for error in np.mean(runs, axis=0))])
    return rows


def _tiny(error: float) -> str:
    if not np.isfinite(error):
        return ""
    return "< 1e-12" if error < 1e-12 else two(error)


def mirror_data_sets(load: Load, _: str) -> Rows:
    """Test error on six data sets; bold is at or below every rival."""
    saved = load("rmd_figure_3")
    test = np.array(saved["test"])
    means = test.mean(axis=1)
    rivals = [i for i, kind in enumerate(saved["kinds"]) if kind == "rival"]
    best = means[:, rivals].argmin(axis=1)
    rows: Rows = [["", *saved["data_sets"]]]
    for i, (name, kind) in enumerate(
        zip(saved["methods"], saved["kinds"], strict=True)
    ):
        cells = []
        for k, runs in enumerate(test[:, :, i]):
            text = spread(runs, 3)
            if kind == "rival":
                cells.append(f"*{text}*" if rivals[best[k]] == i else text)
            else:
                beaten = means[k, i] <= means[k, rivals].min()
                cells.append(f"**{text}**" if beaten else text)
        rows.append([name + " (check)" * (kind == "check"), *cells])
    blended = [spread(runs, 3) for runs in saved["rivals_blended_test"]]
    return [*rows, ["Rivals, blended (check)", *blended]]


def ocr(load: Load, _: str) -> Rows:
    """Letters right, by kernels, next to the paper's."""
    table = load("ocr")["table"]
    rows: Rows = [["kernels", "validated", "seconds", "rule", "paper"]]
    for name, one in table.items():
        if not name.startswith("rule"):
            rule = table.get(f"rule: {name}")
            rows.append(
                [
                    name,
                    f"{one['accuracy']:.1f} ± {one['deviation']:.1f}",
                    two(one["cpu_seconds"]),
                    rule and f"{rule['accuracy']:.1f} ± {rule['deviation']:.1f}",
                    one["paper"],
                ]
            )
    return rows


def chunking(load: Load, _: str) -> Rows:
    """F1 of chunks and the time it takes, next to crfsuite."""
    saved = load("chunking")
    rows: Rows = [["", "F1", "training, CPU seconds", "tagging, CPU seconds"]]
    for name, one in saved["results"].items():
        tagging = saved["tagging"].get(name)
        seconds = tagging and two(tagging["seconds"])
        rows.append([name, f"{one['f1']:.2f}", two(one["seconds"]), seconds])
    return rows


def chunk_choice(load: Load, _: str) -> Rows:
    """F1 of every candidate on held-out sentences of the training set."""
    tried = load("chunking")["validation"]
    rows: Rows = [["candidate", "F1, held-out sentences", "training, CPU seconds"]]
    for one in tried["Labeler"]:
        edges = ", edges" if one["edges"] else ""
        name = f"{one['loss']}, C = {one['C']:g}{edges}"
        rows.append([name, f"{one['f1']:.2f}", two(one["seconds"])])
    for one in tried["CRFSuite"]:
        name = f"crfsuite, c1 = {one['c1']:g}, c2 = {one['c2']:g}"
        rows.append([name, f"{one['f1']:.2f}", two(one["seconds"])])
    return rows


def chunk_ways(load: Load, _: str) -> Rows:
    """F1 on the same sentences for other steps and averages."""
    words = {"tail": "second half", "True": "all", "False": "the last model"}
    rows: Rows = [["average of", "step", "eta0", "F1, held-out sentences"]]
    for one in load("chunking")["validation"]["Learner"]:
        average = words[str(one["average"])]
        rows.append([average, one["step"], f"{one['eta0']:g}", f"{one['f1']:.2f}"])
    return rows


def chunk_pruning(load: Load, _: str) -> Rows:
    """Templates left by dual averaging, and what they are worth."""
    saved = load("chunking")
    rows: Rows = [["C", "templates left", "F1", "F1 after a refit", "gradient steps"]]
    for one in saved["pruning"]:
        scores = [f"{one[name]:.2f}" for name in ("itself", "refitted")]
        left = [f"{one[name]} of {saved['templates']}" for name in ("left", "plain")]
        rows.append([f"{one['C']:g}", left[0], *scores, left[1]])
    return rows


def _scores(one: dict[str, Any], *places: tuple[str, int]) -> list[str]:
    return [f"{100 * one[part][place]:.2f}" for part, place in places]


def parsing(load: Load, _: str) -> Rows:
    """Attachment scores of parsers with all templates of a kind."""
    saved = load("parsing")
    head = ["model", "dev", "test", "test, no punctuation", "words per CPU-second"]
    names = list(saved["results"])[:3]
    return [head] + [
        [
            name,
            *_scores(saved["results"][name], ("dev", 0), ("test", 0), ("test", 1)),
            hundreds(saved["results"][name]["words_per_cpu_second"]),
        ]
        for name in names
    ]


TREEBANKS = {"english": "English EWT", "dutch": "Dutch LassySmall"}


def treebanks(load: Load, _: str) -> Rows:
    """Heads and relations, next to UDPipe."""
    ours, theirs = (load(name)["results"] for name in ("treebanks", "treebank_udpipe"))
    rows: Rows = [["", "dev UAS", "dev LAS", "test UAS", "test LAS", "learned in"]]
    for key, name in TREEBANKS.items():
        for title, results in ((name, ours), (f"UDPipe 1, {name}", theirs)):
            if key in results:
                one = results[key]
                cells = _attachments(one["dev"]) + _attachments(one["test"])
                rows.append([title, *cells, f"{one['cpu']:,.0f} CPU s"])
    return rows


def parse_tagged(load: Load, _: str) -> Rows:
    """Tags, heads and relations of words alone."""
    results = load("treebanks")["results"]
    rows: Rows = [["", "right tags", "UAS", "LAS", "UAS, gold tags", "LAS, gold tags"]]
    for key, name in TREEBANKS.items():
        one = results.get(f"{key}_tagged")
        for part in ("dev", "test") if one else ():
            tags = f"{100 * one[part]['tags']:.2f}"
            gold = _attachments(one[f"{part}_gold_tags"])
            rows.append([f"{name}, {part}", tags, *_attachments(one[part]), *gold])
    return rows


def parser_ablation(load: Load, _: str) -> Rows:
    """What is lost on dev without some templates, as means over seeds."""
    results = load("treebanks")["results"]
    names = {k: v for k, v in TREEBANKS.items() if f"{k}_ablation" in results}
    head = ["left out", "templates of arcs"]
    for name in names.values():
        head += [f"{name}, UAS", f"{name}, LAS"]
    rows: Rows = [head]
    parts = [results[f"{name}_ablation"] for name in names]
    for lines in zip(*parts, strict=True):
        row = [lines[0]["left_out"], lines[0]["templates"]]
        for line in lines:
            row += [_spread(line["scores"], score) for score in ("uas", "las")]
        rows.append(row)
    return rows


def _attachments(scores: dict[str, float]) -> list[str]:
    return [f"{100 * scores[name]:.2f}" for name in ("uas", "las")]


def _spread(scores: list[dict[str, float]], name: str) -> str:
    found = [100 * one[name] for one in scores]
    mean = sum(found) / len(found)
    if len(found) == 1:
        return f"{mean:.2f}"
    return f"{mean:.2f} ({min(found):.2f} to {max(found):.2f})"


def parser_files(load: Load, _: str) -> Rows:
    """What smaller files lose, on dev."""
    results = load("treebanks")["results"]
    names = [name for name in ("english", "dutch") if name in results]
    head = ["weights kept", "bytes each"]
    for name in names:
        head += [f"{name.title()}, MB", f"{name.title()}, UAS", f"{name.title()}, LAS"]
    rows: Rows = [head]
    for pair in zip(*(results[name]["files"] for name in names), strict=True):
        row = [f"{100 * pair[0]['keep']:.0f} %", "2" if pair[0]["half"] else "4"]
        for one in pair:
            row.append(f"{one['mb']:.0f}")
            row += [f"{100 * one[score]:.2f}" for score in ("uas", "las")]
        rows.append(row)
    return rows


def pruning(load: Load, _: str) -> Rows:
    """Templates left by multiple kernel learning, and what they are worth."""
    results = load("parsing")["results"]
    head = ["", "templates left", "itself, dev / test", "refitted, dev / test"]
    head += ["words per CPU-second, first and second fit"]
    rows: Rows = [head]
    for name, one in results.items():
        if name.startswith(("MKL", "The paper")):
            again = [
                fit for title, fit in results.items() if title.endswith(f"of {name}")
            ]
            speeds = [hundreds(fit["words_per_cpu_second"]) for fit in (one, *again)]
            scores = [
                " / ".join(_scores(fit, ("dev", 0), ("test", 0)))
                for fit in (one, *again)
            ]
            rows.append([name, one["n_selected"], *(scores + [""])[:2]])
            rows[-1].append(" and ".join(speeds))
    return rows


_PLACES = (("dev", 0), ("test", 1))


def templates(load: Load, _: str) -> Rows:
    """The strongest templates by MKL and by the SVM."""
    saved = load("parsing")
    results = dict(saved["results"])
    for judge in ("MKL", "SVM"):  # all of them need no judge
        whole = f"SVM, {saved['templates']} templates"
        results[f"{whole} by {judge}"] = results[whole]
    head = ["templates", "by MKL, dev", "by SVM, dev"]
    head += [f"by {judge}, test, no punctuation" for judge in ("MKL", "SVM")]
    rows: Rows = [head]
    for size in [size for size, _ in saved["figure"]["MKL"]]:
        pair = [
            results.get(f"SVM, {size} templates by {judge}") for judge in ("MKL", "SVM")
        ]
        cells = [
            _scores(one, place)[0] if one else "" for place in _PLACES for one in pair
        ]
        rows.append([size, *cells])
    return rows
