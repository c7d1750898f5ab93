"""Every estimator there is, for tests that hold for all of them."""

from manykernels.files.saved import ROOMS, saved_classes

ESTIMATORS = {name: cls for room in ROOMS for name, cls in saved_classes(room).items()}
