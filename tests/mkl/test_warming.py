"""After `warm_up` the usual fits compile nothing."""

import subprocess
import sys

SCRIPT = """
import sys, warnings
import numpy as np
import manykernels as mk

def signatures():
    hot = [vars(m) for name, m in sys.modules.items() if ".hot." in name]
    loops = [loop for names in hot for loop in names.values()]
    return {(f.__name__, str(s)) for f in loops for s in getattr(f, "signatures", ())}

warnings.simplefilter("error", UserWarning)
mk.warm_up()
known = signatures()
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X, y = rng.normal(size=(300, 4)), rng.integers(0, 4, 300)
for p in (1.0, 1.2, 2.0):
    mk.MKLClassifier("rbf@0-1; rbf@2-3; linear", p=p, C=10.0).fit(X, y)
    mk.MKLClassifier("rbf@0-1; rbf@2-3; linear", p=p).fit(X, y > 1)
    mk.MKLRegressor("rbf@0-1; rbf@2-3; linear", p=p).fit(X, y)
    times = y + 1.0, y > 1
    mk.MKLSurvival("rbf@0-1; rbf@2-3; linear", p=p).fit(X, times).score(X, times)
stack = np.stack([X @ X.T + 1.0, (X @ X.T + 1.0) ** 2], axis=2)
mk.MKLClassifier("precomputed").fit(stack, y)
mk.MKLClassifierCV("rbf; linear", Cs=[1.0, 10.0], cv=2, n_jobs=2).fit(X, y)
mk.MKLRegressorCV("rbf; linear", Cs=[1.0, 10.0], cv=2).fit(X, y)
print(len(known), sorted(name for name, _ in signatures() - known))
"""


def test_usual_fits_find_their_loops_compiled() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    count, missing = done.stdout.split(maxsplit=1)
    assert int(count) > 5
    assert missing.strip() == "[]"
