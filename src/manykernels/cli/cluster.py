"""Files in partitions, learned by workers of Dask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from manykernels.base.rooms import room
from manykernels.cli.errors import fail, show
from manykernels.cli.progress import watched
from manykernels.cli.readers.columns import Roles
from manykernels.cli.readers.tables import Source, choose_format

ENGINES = ("dask",)


@dataclass(frozen=True)
class Cluster:
    """Where partitions are learned from."""

    scheduler: str | None
    workers: int | None
    memory_limit: str | None

    @classmethod
    def of(
        cls,
        engine: str | None,
        scheduler: str | None,
        workers: int | None,
        memory_limit: str | None,
        **others: Any,
    ) -> Cluster | None:
        """From the options; None where no engine is named.

        `others` are options that partitions cannot be combined with.
        """
        if engine is None:
            if scheduler is not None or workers is not None:
                fail("--scheduler and --workers need an engine; add --engine dask")
            return None
        if engine not in ENGINES:
            fail(f"expected --engine dask, got {engine!r}; choose it or leave it out")
        for name, value in others.items():
            if value:
                option = name.replace("_", "-")
                fail(f"--engine dask has no --{option}; leave one of them out")
        if scheduler is not None and workers is not None:
            fail("expected --scheduler or --workers, got both; leave one of them out")
        return cls(scheduler, workers, memory_limit)

    def fit(
        self, model: Any, source: Source, roles: Roles, verbose: bool, quiet: bool
    ) -> tuple[dict[str, Any], list[type[Warning]]]:
        """Fit on all files of a pattern; what to report, and the warnings that came."""
        there = room("distributed")
        format = choose_format(source.path, source.format)
        if roles.target is None:
            fail("expected --target with the column of the labels, got none; name it")
        with there.connected(self.scheduler, self.workers, self.memory_limit) as client:
            if not quiet:
                show(f"dashboard: {client.dashboard_link}", err=True)
            frame = there.read_files(source.path, format)
            names = [str(name) for name in frame.columns]
            plan = roles.plan(names, len(names))
            weight = None if plan.weight is None else frame[names[plan.weight]]
            assert plan.target is not None  # it was asked for
            X, y = frame[plan.feature_names], frame[names[plan.target]]
            with watched(model, verbose, quiet) as seen:
                model.fit(X, y, sample_weight=weight)
            return {"partitions": frame.npartitions}, seen
