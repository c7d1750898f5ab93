"""Deformed digits: MNIST's training images turned, sheared, moved and scaled.

Row i is the same whatever the rows it is drawn with: partitions of any size hold the
same data.
"""

from __future__ import annotations

import numpy as np

SIDE = 28
BLOCK = 1000  # images drawn with one generator


def deformed(
    images: np.ndarray, labels: np.ndarray, start: int, stop: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows start to stop of the endless table: pixels as bytes, and labels."""
    first, last = start // BLOCK, -(-stop // BLOCK)
    parts = [_block(images, labels, k) for k in range(first, last)]
    X = np.concatenate([part[0] for part in parts])
    y = np.concatenate([part[1] for part in parts])
    cut = slice(start - first * BLOCK, stop - first * BLOCK)
    return X[cut], y[cut]


def _block(
    images: np.ndarray, labels: np.ndarray, number: int
) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([number, 2017])
    chosen = rng.integers(len(images), size=BLOCK)
    places = _maps(rng) @ _grid()  # (images, 2, pixels)
    return _sampled(images[chosen], places), labels[chosen]


def _grid() -> np.ndarray:
    """Homogeneous coordinates of the pixels from -1 to 1, shape (3, pixels)."""
    line = (2.0 * np.arange(SIDE) + 1.0) / SIDE - 1.0
    rows, columns = np.meshgrid(line, line, indexing="ij")
    return np.stack([columns.ravel(), rows.ravel(), np.ones(SIDE * SIDE)])


def _maps(rng: np.random.Generator) -> np.ndarray:
    """Random maps of the plane near the identity, shape (images, 2, 3)."""
    angle, shear = rng.uniform(-0.2, 0.2, (2, BLOCK))
    scale = rng.uniform(0.9, 1.1, BLOCK)
    move = rng.uniform(-0.12, 0.12, (2, BLOCK))
    cosine, sine = np.cos(angle) / scale, np.sin(angle) / scale
    first = np.stack([cosine, shear - sine, move[0]], axis=1)
    second = np.stack([sine, cosine, move[1]], axis=1)
    return np.stack([first, second], axis=1)


def _sampled(images: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Values between pixels, bilinear, with zeros outside; bytes."""
    at = ((places + 1.0) * SIDE - 1.0) / 2.0
    corner = np.floor(at).astype(np.int64)
    part = at - corner
    out = np.zeros((len(images), SIDE * SIDE))
    rows = np.arange(len(images))[:, None]
    for right in (0, 1):
        for down in (0, 1):
            x, y = corner[:, 0] + right, corner[:, 1] + down
            share = np.abs(1 - right - part[:, 0]) * np.abs(1 - down - part[:, 1])
            inside = (x >= 0) & (x < SIDE) & (y >= 0) & (y < SIDE)
            flat = np.clip(y, 0, SIDE - 1) * SIDE + np.clip(x, 0, SIDE - 1)
            out += np.where(inside, share * images[rows, flat], 0.0)
    return np.rint(out).astype(np.uint8)
