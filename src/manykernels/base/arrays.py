"""The array types that signatures name."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Values: TypeAlias = NDArray[Any]  # float32 or float64, as a bank stores it
Index: TypeAlias = NDArray[np.intp]
Selection: TypeAlias = Index | slice  # of rows or columns
