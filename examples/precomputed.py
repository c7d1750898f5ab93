"""Kernels computed elsewhere: choose C and p by grid search, then predict new rows."""

import numpy as np
from sklearn.datasets import load_wine
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import StandardScaler

import manykernels as mk

FUNCTIONS = (rbf_kernel, laplacian_kernel, polynomial_kernel)


def stack(rows: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Kernel values of shape (rows, training rows, kernels)."""
    return np.stack([function(rows, train) for function in FUNCTIONS], axis=-1)


def main() -> None:
    """Search, then score rows that the search has not seen."""
    X, y = load_wine(return_X_y=True)
    train, test, y_train, y_test = train_test_split(X, y, random_state=0)
    scaler = StandardScaler().fit(train)
    train, test = scaler.transform(train), scaler.transform(test)
    search = GridSearchCV(
        mk.MKLClassifier("precomputed", random_state=0),
        {"C": [0.1, 1.0, 10.0], "p": [1.0, 1.1, 1.5]},
        cv=3,
    ).fit(stack(train, train), y_train)
    print("chosen:", search.best_params_)
    print(f"accuracy {search.score(stack(test, train), y_test):.3f}")
    for function, weight in zip(
        FUNCTIONS, search.best_estimator_.kernel_weights_, strict=True
    ):
        print(f"{weight:5.1%}  {function.__name__}")


if __name__ == "__main__":
    main()
