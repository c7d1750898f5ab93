"""Loops of dual ascent for losses of the residual, under frozen kernel weights."""

from __future__ import annotations

from manykernels.hot.lazy import njit

# Changes below this share of a row's scale are rounding, not progress.
NEGLIGIBLE = 1e-15


@njit(cache=True, fastmath=True, nogil=True)
def residual_sweeps(gram, residual, coef, tube, soft, limit, floor, orders, goal):
    """Solve each coefficient's own problem exactly, one by one, until all are solved.

    For every row i and output k the dual is
    a y - tube |a| - soft_i a^2 / 2 - (quadratic form) / 2 with floor_i <= a <= limit_i
    (floor_i <= 0): in closed form a step along the residual, a soft threshold and a
    clip. coef (outputs, rows) and residual (outputs, rows), y minus the scores, change
    in place. Stops early once no coefficient moves by more than `goal` of the largest.
    Returns the number of changes.
    """
    n_outputs, n_rows = coef.shape
    updates = 0
    for sweep in range(len(orders)):
        largest = 0.0
        farthest = 0.0
        for i in orders[sweep]:
            row = gram[i]
            curvature = row[i] + soft[i]
            for k in range(n_outputs):
                pull = residual[k, i] - soft[i] * coef[k, i]
                value = _row_optimum(
                    coef[k, i], pull, curvature, tube, limit[i], floor[i]
                )
                change = value - coef[k, i]
                largest = max(largest, abs(value))
                if abs(change) <= NEGLIGIBLE * largest:
                    continue
                farthest = max(farthest, abs(change))
                coef[k, i] = value
                updates += 1
                moving = residual[k]
                for j in range(n_rows):
                    moving[j] -= change * row[j]
        if farthest <= goal * largest:
            break
    return updates


@njit(cache=True, fastmath=True)
def _row_optimum(coef, pull, curvature, tube, limit, floor):
    """argmax over [floor, limit]; `pull` is the slope at coef without the tube."""
    if curvature <= 0.0:
        # Invisible to the kernel: the linear term alone decides.
        if abs(pull) <= tube:
            return 0.0
        return limit if pull > 0.0 else floor
    free = curvature * coef + pull
    if free > tube:
        return min((free - tube) / curvature, limit)
    if free < -tube:
        return max((free + tube) / curvature, floor)
    return 0.0
