"""Losses and solvers by name, and the rules for parameters that estimators share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from manykernels.banks import Storage
from manykernels.base.machine import parse_bytes
from manykernels.device import read_device
from manykernels.inputs.parameters import (
    LARGEST_PENALTY,
    ClassWeights,
    FileName,
    Flag,
    Function,
    Number,
    OneOf,
    ReadBy,
    Rules,
    Whole,
    read_approximation,
)
from manykernels.inputs.preparation import MISSING_STRATEGIES
from manykernels.inputs.scaling import read_scale
from manykernels.losses import (
    EpsilonInsensitive,
    Huber,
    Loss,
    MulticlassHinge,
    SmoothedHinge,
    Softmax,
    Squared,
    SquaredHinge,
)
from manykernels.solvers import Auto, DualAscent, Obscure, Pegasos
from manykernels.solvers.regression.ascent import RegressionAscent
from manykernels.solvers.regression.ridge import Ridge
from manykernels.solvers.smooth.truncated_newton import TruncatedNewton
from manykernels.solvers.svrg.solver import SVRG

CLASS_LOSSES: Mapping[str, Callable[[], Loss]] = {
    "hinge": MulticlassHinge,
    "log": Softmax,
    "smoothed_hinge": SmoothedHinge,
    "squared_hinge": SquaredHinge,
}
CLASS_SOLVERS: Mapping[str, Callable[..., Any]] = {
    "auto": Auto,
    "dual_ascent": DualAscent,
    "truncated_newton": TruncatedNewton,
    "svrg": SVRG,
    "obscure": Obscure,
    "pegasos": Pegasos,
}
# With the parameter of the estimator that is the parameter of the loss.
VALUE_LOSSES: Mapping[str, tuple[Callable[..., Loss], tuple[str, ...]]] = {
    "squared": (Squared, ()),
    "huber": (Huber, ("threshold",)),
    "epsilon_insensitive": (EpsilonInsensitive, ("epsilon",)),
}
VALUE_SOLVERS: Mapping[str, Callable[..., Any]] = {
    "auto": Auto,
    "ridge": Ridge,
    "newton": TruncatedNewton,
    "dual_ascent": RegressionAscent,
}
TIME_SOLVERS: Mapping[str, Callable[..., Any]] = {
    "auto": Auto,
    "dual_ascent": RegressionAscent,
}
# What `max_iter` is called by solvers that count passes.
PASS_LIMITS = {"obscure": "batch_passes", "pegasos": "passes"}

RIVALS_HINT = ", or a rival such as manykernels.compare.SimpleMKL()"

EXPONENT = Number(1.0, 2.0, low_ok=True)
PENALTY = Number(largest=LARGEST_PENALTY)
SHARED: Rules = {
    "C": PENALTY,
    "p": EXPONENT,
    "tol": Number(low_ok=True),
    "max_iter": Whole(optional=True),
    "psd": OneOf("check", "clip", "skip"),
    "nugget": OneOf("shared", None),
    "scale": ReadBy(read_scale),
    "missing": OneOf(*MISSING_STRATEGIES),
    "approximate": ReadBy(read_approximation, optional=True),
    "storage": ReadBy(Storage.of, words=("auto",)),
    "memory_limit": ReadBy(parse_bytes, optional=True),
    "warm_start": Flag(),
    "checkpoint": FileName(optional=True),
    "callback": Function(optional=True),
}
PLACED: Rules = {"device": ReadBy(read_device, optional=True)}
CLASSIFIER: Rules = {
    **SHARED,
    **PLACED,
    "class_weight": ClassWeights(optional=True),
    "loss": OneOf(*CLASS_LOSSES, method="make_feasible"),
    "solver": OneOf(*CLASS_SOLVERS, method="solve", hint=RIVALS_HINT),
}
REGRESSOR: Rules = {
    **SHARED,
    **PLACED,
    "loss": OneOf(*VALUE_LOSSES, method="make_feasible"),
    "epsilon": Number(low_ok=True),
    "threshold": Number(),
    "fit_intercept": Flag(),
    "per_target_weights": Flag(),
    "solver": OneOf(*VALUE_SOLVERS, method="solve"),
}
SURVIVAL: Rules = {
    **SHARED,
    "epsilon": Number(low_ok=True),
    "time_scale": OneOf("log", "linear"),
    "fit_intercept": Flag(),
    "solver": OneOf(*TIME_SOLVERS, method="solve"),
}
