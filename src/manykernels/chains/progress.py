"""What a labeler tells the people who wait for it."""

from __future__ import annotations

import sys
from typing import Any

from manykernels.chains.online_proximal import ChainCallback, ChainEpoch


def labeler_callback(verbose: int, callback: Any) -> ChainCallback | None:
    """The user's callback, after a printed line if `verbose`."""
    if callback is not None and not callable(callback):
        raise TypeError(
            "callback must be a function of one line of the history, got "
            f"{callback!r}; pass the function itself or None."
        )
    if not verbose:
        return callback  # type: ignore[no-any-return]

    def tell(line: ChainEpoch) -> object:
        sys.stderr.write(
            f"epoch {line.epoch:3d}  objective {line.objective:.6g}  "
            f"updates {line.updates}  {line.time:.2f} s\n"
        )
        return callback(line) if callback is not None else None

    return tell
