"""Conjugate gradients, for many systems side by side, on arrays of any library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from manykernels.device import DeviceArray, namespace, quotient

MAX_PRODUCTS = 500  # for one system: rounding ends conjugate gradients before

Pair = tuple[DeviceArray, DeviceArray]  # x and K x


def conjugate_gradients(
    product: Callable[[DeviceArray, DeviceArray], DeviceArray],
    precondition: Callable[[DeviceArray], Pair],
    rest: DeviceArray,
    dots: Callable[[DeviceArray, DeviceArray], DeviceArray],
    done: Callable[[DeviceArray, DeviceArray, DeviceArray], Any],
    max_steps: int,
    first: Pair | None = None,
) -> Pair:
    """Solve A x = rest, where A is symmetric in the inner product <x, K y>.

    Parameters
    ----------
    product : callable
        From y and K y to A y.
    precondition : callable
        From a residual r to z, near A^-1 r or r itself, and K z.
    rest : array
        The right-hand sides.
    dots : callable
        From two arrays to one inner product per system, to multiply arrays with.
    done : callable
        From x, the residual r and <r, K z> to whether systems are solved.
    max_steps : int
    first : pair of arrays, optional
        precondition(rest), where it is known.

    Returns
    -------
    pair of arrays
        x and K x.

    Examples
    --------
    >>> import numpy as np
    >>> A, b = np.diag([1.0, 2.0, 4.0]), np.ones((3, 1))
    >>> x, _ = conjugate_gradients(
    ...     lambda y, _: A @ y, lambda r: (r, r), b, lambda a, b: np.sum(a * b, axis=0),
    ...     lambda x, r, square: square < 1e-20, 10)
    >>> x[:, 0].round(6).tolist()
    [1.0, 0.5, 0.25]
    """
    xp = namespace(rest)
    solution = image = xp.zeros_like(rest)
    way, way_image = precondition(rest) if first is None else first
    square = dots(rest, way_image)
    for _ in range(max_steps):
        if bool(xp.all(done(solution, rest, square) | (square == 0.0))):
            break
        bent = product(way, way_image)
        steep = dots(way_image, bent)
        if not bool(xp.any(steep > 0.0)):  # rounding: A is positive semi-definite
            break
        length = quotient(xp, square, steep)
        solution, image = solution + length * way, image + length * way_image
        rest = rest - length * bent
        better, better_image = precondition(rest)
        last, square = square, dots(rest, better_image)
        ratio = quotient(xp, square, last)
        way, way_image = better + ratio * way, better_image + ratio * way_image
    return solution, image
