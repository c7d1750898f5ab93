"""Which view of the data matters? One kernel per group of columns, and a picture."""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import manykernels as mk
from manykernels.report import plot_fit

VIEWS = {"mean": "mean*", "error": "*error", "worst": "worst*"}
KINDS = ("linear", "rbf")


def main() -> None:
    """Compare the learned combination with each view alone."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    kernels = [f"{kind}@{columns}" for columns in VIEWS.values() for kind in KINDS]
    model = classifier(kernels)
    print(f"all views   {cross_val_score(model, X, y, cv=3).mean():.3f}")
    for name, columns in VIEWS.items():
        alone = classifier([f"{kind}@{columns}" for kind in KINDS])
        print(f"{name:11s} {cross_val_score(alone, X, y, cv=3).mean():.3f}")
    mkl = model.fit(X, y)[-1]
    groups = [view for view in VIEWS for _ in KINDS]
    plot_fit(mkl, groups, "Breast cancer, three views").savefig("views.png")


def classifier(kernels: list[str]):
    """Standardized columns, names kept, then multiple kernel learning."""
    scaler = StandardScaler().set_output(transform="pandas")
    return make_pipeline(scaler, mk.MKLClassifier(kernels, random_state=0))


if __name__ == "__main__":
    main()
