"""How many terms do the data support? An information criterion for huge sets."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from manykernels.base.arrays import Array
from manykernels.products.losses import ScoreLoss, SquaredError

NO_ERROR = 1e-24  # of the variance: squares below it are rounding


def log_choices(n_products: int, n_terms: int) -> float:
    """log of the number of ways to choose the terms.

    Examples
    --------
    >>> round(log_choices(176_851, 10))
    106
    """
    k = min(n_terms, n_products)
    return float(
        gammaln(n_products + 1.0) - gammaln(k + 1.0) - gammaln(n_products - k + 1.0)
    )


def extended_bic(
    loss: ScoreLoss,
    scores: Array,
    target: Array,
    freedom: float,
    n_terms: int,
    n_products: int,
) -> float:
    """deviance + freedom log n + 2 log(choices of n_terms among n_products).

    The last part is the price of having searched: the best of 100,000 columns of noise
    explains something, and the criterion expects just that (Chen and Chen, 2008). The
    deviance is n log(mean squared error), or twice the loss.
    """
    n = len(target)
    if isinstance(loss, SquaredError):
        least = max(NO_ERROR * float(np.var(target)), 1e-290)
        mean = 2.0 * float(loss.value(scores, target).mean())
        deviance = n * float(np.log(max(mean, least)))
    else:
        deviance = 2.0 * float(loss.value(scores, target).sum())
    price = freedom * float(np.log(n)) + 2.0 * log_choices(n_products, n_terms)
    return deviance + price
