"""A small study with hostile names, and its report."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine

import manykernels as mk
from manykernels.study import methods

EVIL = '<img src=x onerror="window.hacked=1">'
SCRIPT = "</script><script>window.hacked=1</script>"


def strange_data():
    """Wine whose views, rows and classes have names that would like to be tags."""
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    rows = [f"{SCRIPT} {i}" for i in range(len(X))]
    views = {
        EVIL.replace("=", "").replace(":", ""): pd.DataFrame(X[:, :6], rows),
        "plain": pd.DataFrame(X[:, 6:], rows).iloc[:-20],
    }
    labels = np.array([SCRIPT, "b & c", "'\"d"], dtype=object)[y]
    return views, pd.Series(labels, rows)


@pytest.fixture(scope="session")
def strange_study():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(methods, "FOREST_TREES", 10)
        model = mk.MKLClassifier("rbf; linear", random_state=0)
        study = mk.Study(model, ps=[1.0], Cs=[1.0, 10.0], cv=3, n_pairs=1)
        return study.fit(*strange_data())


@pytest.fixture(scope="session")
def strange_report(strange_study, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    strange_study.report(path)
    return path
