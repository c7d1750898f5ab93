"""A stream that never ends: does memory stay flat, does accuracy stay flat under drift?

Three classes turn around the origin, so that every model is wrong after a while. A
model with a budget learns from chunk after chunk, and every few seconds it is saved,
thrown away and loaded again, as after a crash. Ten minutes by default, hours with
--minutes; it fails if the last third is worse than the first in memory or accuracy.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import memory, parse, show
from evidence import save

import manykernels as mk

CHUNK = 200
TURN = 2.0 * np.pi / 500  # radians a chunk: once around in 500 chunks
COLUMNS = 6
RELOADED = 5.0  # seconds between checkpoints
MOST_GROWTH = 0.05  # of memory, from the first third to the last
MOST_LOSS = 0.02  # of accuracy
MOST_LOSS_QUICK = 0.05  # in less than a turn, whose parts are not equally easy


def chunk(rng: np.random.Generator, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows around three centers at the corners of a triangle that turns."""
    y = rng.integers(0, 3, CHUNK)
    angle = TURN * step + 2.0 * np.pi / 3.0 * y
    X = rng.normal(scale=0.6, size=(CHUNK, COLUMNS))
    X[:, 0] += 1.5 * np.cos(angle)
    X[:, 1] += 1.5 * np.sin(angle)
    return X, y


def learn(seconds: float, policy: str, size: int, seed: int) -> list[dict[str, Any]]:
    """One line per checkpoint: chunks so far, bytes, and accuracy since the last."""
    rng, lines, rights = np.random.default_rng(seed), [], []
    kernels = "rbf:gamma=0.5@0-1; rbf:gamma=0.5@2-3; rbf:gamma=0.5@4-5; linear"
    budget = mk.Budget(size, policy)
    model = mk.MKLClassifier(kernels, budget=budget, random_state=seed)
    began = last = time.monotonic()
    step = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stream.mk"
        while time.monotonic() - began < seconds:
            X, y = chunk(rng, step)
            if step:
                rights.append(float(np.mean(model.predict(X) == y)))
            model.partial_fit(X, y, classes=[0, 1, 2])
            step += 1
            if time.monotonic() - last > min(RELOADED, seconds / 30):
                model.save(path)
                model = mk.load(path).set_params(random_state=seed)
                last = time.monotonic()
                accuracy = float(np.mean(rights)) if rights else None
                line = {"chunks": step, "bytes": memory("VmRSS"), "accuracy": accuracy}
                lines.append(line | {"support": len(model.support_)})
                rights.clear()
    return lines


def judge(lines: list[dict[str, Any]]) -> dict[str, float]:
    """First and last third; compiling and the first budget are not part of it."""
    kept = [line for line in lines[len(lines) // 10 + 1 :] if line["accuracy"]]
    third = max(1, len(kept) // 3)
    found = {}
    for name in ("bytes", "accuracy"):
        values = [line[name] for line in kept]
        found[f"first {name}"] = float(np.mean(values[:third]))
        found[f"last {name}"] = float(np.mean(values[-third:]))
    return found


def main() -> int:
    """Returns 1 if memory grew or accuracy fell."""
    options = parse(
        "Soak a stream with a budget.",
        minutes=(10.0, "how long, all policies together"),
        size=(300, "rows of the budget"),
        seed=(0, "of rows and learning"),
        quick=(False, "some seconds"),
    )
    seconds = 8.0 if options.quick else 60.0 * options.minutes
    most_loss = MOST_LOSS_QUICK if options.quick else MOST_LOSS
    results, failed = {}, False
    for policy in ("oldest", "smallest", "project"):
        lines = learn(seconds / 3.0, policy, options.size, options.seed)
        found = judge(lines) | {"chunks": lines[-1]["chunks"]}
        found["support"] = max(line["support"] for line in lines)
        results[policy] = found
        failed |= found["last bytes"] > (1.0 + MOST_GROWTH) * found["first bytes"]
        failed |= found["last accuracy"] < found["first accuracy"] - most_loss
    columns = ["policy", *results["oldest"]]
    show("Soak", columns, [[name, *line.values()] for name, line in results.items()])
    save("soak", results=results)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
