"""Folds of a search on workers: kernels are built once in each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from threading import Lock
from typing import Any

from joblib import effective_n_jobs
from joblib.parallel import get_active_backend

from manykernels.base.machine import one_blas_thread

_built: dict[str, Any] = {}  # the bank of the last search, in every worker
_building = Lock()


def on_workers(search: Any, recipe: Any, work: str, items: Sequence[Any]) -> list[Any]:
    """work(item) of a search for all items, `n_jobs` of them at a time.

    Parameters
    ----------
    search : Search
    recipe : BankRecipe
        What its kernels are built from, by every worker that gets an item.
    work : str
        A method of the search.
    items : sequence
    """
    from distributed import as_completed

    backend, limit = get_active_backend()
    client = backend.client
    jobs = effective_n_jobs(limit if search.n_jobs is None else search.n_jobs)
    alone = replace(search, bank=None)
    common = client.scatter([alone, recipe], broadcast=True, hash=False)
    key = common[1].key
    waiting = list(enumerate(items))[::-1]
    places: dict[Any, int] = {}

    def send() -> Any:
        place, item = waiting.pop()
        future = client.submit(run_item, *common, key, work, item, pure=False)
        places[future] = place
        return future

    results: list[Any] = [None] * len(items)
    ahead = as_completed([send() for _ in range(min(jobs, len(waiting)))])
    for future in ahead:
        results[places[future]] = future.result()
        if waiting:
            ahead.add(send())
    return results


def run_item(search: Any, recipe: Any, key: str, work: str, item: Any) -> Any:
    """One item, with the kernels of this worker."""
    whole = replace(search, bank=_bank_of(recipe, key))
    with one_blas_thread():
        return getattr(whole, work)(item, _no_progress)


def _bank_of(recipe: Any, key: str) -> Any:
    with _building:
        if key not in _built:
            _built.clear()  # of an earlier search
            _built[key] = recipe.build()
        return _built[key]


def _no_progress() -> None:
    """Steps on workers are not counted."""
