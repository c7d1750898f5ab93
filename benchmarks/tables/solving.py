"""Tables of the pages about memory, streams, smooth losses and regression."""

from __future__ import annotations

from contest.tables import Load, Rows

from tables.texts import hundreds, percent, range_of, two, with_quartiles


def half_precision(load: Load, _: str) -> Rows:
    """What rounding to float16 costs."""
    kinds = ("float32", "float16")
    head = ["", *(f"gap in {kind}" for kind in kinds)]
    head += [f"accuracy in {kind}" for kind in kinds]
    return [head] + [
        [
            name,
            *(two(one[kind]["gap"]) for kind in kinds),
            *(percent(one[kind]["accuracy"]) for kind in kinds),
        ]
        for name, one in load("storages")["half_precision"].items()
    ]


def storages(load: Load, _: str) -> Rows:
    """The same fit from every storage."""
    head = ["storage", "build and solve, s", "peak memory, GB", "above the start, GB"]
    head += ["objective", "accuracy"]
    return [head] + [
        [
            name,
            with_quartiles(one),
            f"{one['peak'] / 1e9:.2f}",
            f"{one['above_start'] / 1e9:.2f}",
            f"{one['objective']:.4g}",
            percent(one["accuracy"]),
        ]
        for name, one in load("storages")["fits"].items()
    ]


LABELS = {"support": "support rows"}


def scaling(load: Load, axis: str) -> Rows:
    """Seconds, support rows and updates against rows or kernels."""
    saved = load("scaling")
    by_size = saved[f"by_{axis}"]
    quantities = (
        ("auto to 1e-2", "seconds"),
        ("auto to 1e-2", "support"),
        ("OBSCURE, 2 online passes", "seconds"),
        ("OBSCURE, 2 online passes", "updates"),
    )
    return [[axis, *(f"{int(size):,}" for size in by_size), "exponent"]] + [
        [
            f"{name.split()[0].strip(',')}, {LABELS.get(key, key)}",
            *(
                with_quartiles(one[name]) if key == "seconds" else two(one[name][key])
                for one in by_size.values()
            ),
            f"{saved['exponents'][axis][name][key]:.2f}",
        ]
        for name, key in quantities
    ]


def himalaya(load: Load, _: str) -> Rows:
    """R^2 and seconds for one and for many targets."""
    targets = load("himalaya")["targets"]
    head = [""]
    for size in targets:
        words = "target" if size == "1" else "targets"
        head += [f"{size} {words}: test R²", "seconds"]
    return [head] + [
        [
            name,
            *(
                two(number)
                for one in targets.values()
                for number in (one[name]["r2"], one[name]["seconds"]["median"])
            ),
        ]
        for name in targets["1"]
    ]


def smooth_wrapper(load: Load, _: str) -> Rows:
    """Seconds to a small gap, next to wrappers."""
    results = load("smooth_wrapper")["results"]
    solvers = list(dict.fromkeys(name for one in results.values() for name in one))
    return [["seconds", *solvers]] + [
        [
            problem,
            *(
                two(one[name]["seconds"]["median"]) if name in one else None
                for name in solvers
            ),
        ]
        for problem, one in results.items()
    ]


def streaming(load: Load, _: str) -> Rows:
    """A million rows in a stream."""
    head = ["", "rows per second", "per CPU second", "test accuracy"]
    rows: Rows = [[*head, "resident memory, MB"]]
    for name, one in load("streaming")["learners"].items():
        memory = [megabytes for _, megabytes in one["memory_mb"]]
        rows.append(
            [
                name,
                hundreds(one["rows_per_second"]),
                hundreds(one["rows_per_cpu_second"]),
                percent(one["accuracy"]),
                range_of(memory, 0),
            ]
        )
    return rows


def budgets(load: Load, _: str) -> Rows:
    """Test accuracy by budget and policy."""
    lines = load("budgets")["lines"]
    policies = [line["policy"] for line in lines if line["budget"] == 100]
    rows: Rows = [["budget", *(f'`"{policy}"`' for policy in policies)]]
    for size in dict.fromkeys(line["budget"] for line in lines if line["budget"]):
        own = {line["policy"]: line for line in lines if line["budget"] == size}
        rows.append([f"{size:,}", *(percent(own[x]["accuracy"]) for x in policies)])
    free = lines[0]
    title = f"none ({free['support']:,} support rows)"
    return [*rows, [title, *[percent(free["accuracy"])] * len(policies)]]
