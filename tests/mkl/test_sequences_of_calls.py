"""fit, partial_fit, save, load, clone and set_params in any order.

After every call the estimator predicts what a fresh one does that was only told what
still matters: the last fit, and the parts that came after it.
"""

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from sklearn.base import clone
from sklearn.datasets import load_iris

from manykernels import MKLClassifier, load

X, Y = load_iris(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(len(X))
PARTS = np.array_split(ORDER[:120], 6)
NEW = X[ORDER[120:]]
SETTINGS = {"C": [0.5, 5.0], "p": [1.2, 2.0], "kernels": ["rbf; linear", "rbf@0-1"]}
parts = st.integers(0, len(PARTS) - 1)


class Calls(RuleBasedStateMachine):
    """What is known of the estimator: the calls that its model follows from."""

    def __init__(self):
        super().__init__()
        self.model = MKLClassifier("rbf; linear", random_state=0)
        self.calls = []  # (method, parameters at that time, part)

    def record(self, method, part):
        self.calls.append((method, self.model.get_params(), part))

    @rule(part=parts)
    def fit(self, part):
        self.model.fit(X[PARTS[part]], Y[PARTS[part]])
        self.calls.clear()
        self.record("fit", part)

    @rule(part=parts)
    def partial_fit(self, part):
        self.model.partial_fit(X[PARTS[part]], Y[PARTS[part]], classes=[0, 1, 2])
        self.record("partial_fit", part)

    @rule(name=st.sampled_from(sorted(SETTINGS)), which=st.booleans())
    def set_params(self, name, which):
        """Says nothing of what was learned, only of what will be."""
        self.model.set_params(**{name: SETTINGS[name][which]})

    @rule()
    def clone(self):
        self.model = clone(self.model)
        self.calls.clear()

    @precondition(lambda self: self.calls)
    @rule()
    def save_and_load(self):
        with tempfile.TemporaryDirectory() as folder:
            self.model.save(Path(folder) / "model.mk")
            known = self.model.get_params()
            self.model = load(Path(folder) / "model.mk")
        # Random states are not saved.
        self.model.set_params(random_state=0)
        assert repr(self.model.get_params()) == repr(known)

    @invariant()
    def predicts_what_a_fresh_one_does(self):
        if not self.calls:
            assert not hasattr(self.model, "dual_coef_")
            return
        fresh = MKLClassifier()
        for method, known, part in self.calls:
            extra = {} if method == "fit" else {"classes": [0, 1, 2]}
            fresh.set_params(**known)
            getattr(fresh, method)(X[PARTS[part]], Y[PARTS[part]], **extra)
        found, expected = (m.decision_function(NEW) for m in (self.model, fresh))
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
        assert self.model.n_iter_ == fresh.n_iter_


TestCalls = Calls.TestCase
TestCalls.settings = settings(max_examples=40, stateful_step_count=10, deadline=None)
