"""Settings among which the defaults for views are chosen."""

from __future__ import annotations

from dataclasses import dataclass

P_VALUES = (1.0, 1.1, 1.25, 1.5, 2.0)
C_VALUES = (0.1, 1.0, 10.0, 100.0)
LEARNED, UNIFORM = 1, 4  # places of p = 1.1 and p = 2

LINEAR = ("linear",)
RBF = ("rbf:gamma=median",)
RBFS = ("rbf:gamma=0.25*median", "rbf:gamma=median", "rbf:gamma=4*median")
WIDE = ("rbf:gamma=0.0625*median", "rbf:gamma=0.25*median", "rbf:gamma=median")
FIVE = ("rbf:gamma=0.0625*median", *RBFS, "rbf:gamma=16*median")


@dataclass(frozen=True)
class Family:
    """Kernels for every view, and how the views are scaled first."""

    name: str
    kernels: tuple[str, ...]
    scaling: str = "standard"

    @property
    def averaged(self) -> str:
        """The name of an SVM on the mean of these kernels."""
        return f"averaged kernel, {self.name}"


FAMILIES = (
    Family("linear", LINEAR),
    Family("one RBF", RBF),
    Family("two RBFs", WIDE[1:]),
    Family("linear, three RBFs", LINEAR + RBFS),
    Family("linear, three wide RBFs", LINEAR + WIDE),
    Family("linear, five RBFs", LINEAR + FIVE),
    Family("linear, three RBFs, raw", LINEAR + RBFS, "raw"),
    Family("linear, five RBFs, log1p", LINEAR + FIVE, "log1p"),
)
# One kernel for every view, and several: what do learned weights add?
SEVERAL = FAMILIES[1], FAMILIES[3], FAMILIES[5]
USED = FAMILIES[7]  # the default
WIDE_ONLY, WITH_NARROW = FAMILIES[4], FAMILIES[5]
AVERAGED = (*SEVERAL, USED)
# The grid of 64 that a careful user would try.
GRID = ("linear", "one RBF", "linear, three RBFs", "linear, three RBFs, raw")
GRID_P = (1.0, 1.1, 1.5, 2.0)
