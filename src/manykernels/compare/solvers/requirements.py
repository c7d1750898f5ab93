"""What a rival cannot do, in one sentence that names both sides."""

from __future__ import annotations

from manykernels.solvers.problem import Problem


def require_sparse_norm(problem: Problem, solver: str) -> None:
    """Methods on the simplex of kernel weights solve p = 1 only."""
    if problem.norm.p != 1.0:
        raise ValueError(
            f"{solver} searches the weights of p = 1 only, got p={problem.norm.p:g}; "
            "use p=1, or solver='kloft' or 'auto' for other values."
        )


def require_smooth_weights(problem: Problem, solver: str) -> None:
    """Closed-form weights and a smooth dual need p > 1."""
    if problem.norm.p <= 1.0:
        raise ValueError(
            f"{solver} needs 1 < p <= 2, where the dual has a gradient, got "
            f"p={problem.norm.p:g}; use p=1.05, or solver='auto' for exactly sparse "
            "weights."
        )


def require_two_classes(problem: Problem, solver: str) -> None:
    """Methods with one coefficient per row tell two classes apart."""
    if problem.n_outputs != 2:
        raise ValueError(
            f"{solver} handles two classes, got {problem.n_outputs}; wrap the "
            "estimator in scikit-learn's OneVsRestClassifier, or choose solver='auto'."
        )


def require_combinable(problem: Problem, solver: str) -> None:
    """Wrappers hold one combined kernel of all rows."""
    bank = problem.bank
    if bank.max_combined_rows < bank.n_rows:
        raise ValueError(
            f"{solver} must hold a combined kernel of all {bank.n_rows} rows, and "
            f"memory allows {bank.max_combined_rows}; raise memory_limit or choose "
            "solver='auto'."
        )
