"""Files and models as the commands need them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from manykernels.cli.errors import fail
from manykernels.cli.readers.columns import Roles, Sample
from manykernels.cli.readers.labels import labels_like
from manykernels.cli.readers.tables import STDIN, TARGETS, choose_format, read_sample
from manykernels.files import load

UNLABELED = ("csv", "tsv", "parquet")  # formats whose target must be named


@dataclass(frozen=True)
class Source:
    """A file and how to read it."""

    path: str
    format: str | None = None
    header: bool | None = None

    def read(self, roles: Roles) -> Sample:
        """The rows without labels, unless the roles name them."""
        return read_sample(self.path, roles, self.format, self.header)

    def read_labeled(self, roles: Roles) -> tuple[Sample, np.ndarray]:
        """The rows and their labels, from where the format keeps them."""
        kind = choose_format(self.path, self.format)
        target = roles.target or TARGETS.get(kind)
        if target is None and kind in UNLABELED:
            fail(
                "expected --target with the column of the labels, got none; give its "
                "name or position"
            )
        sample = self.read(replace(roles, target=target))
        assert sample.y is not None  # every reader reads the target it was asked for
        return sample, sample.y


@dataclass(frozen=True)
class Loaded:
    """A model and the columns it was fitted on."""

    estimator: Any
    names: list[str] | None

    @classmethod
    def of(cls, path: Path) -> Loaded:
        """Read a model file."""
        estimator = load(path)
        # Columns are put in order here; scikit-learn would warn of arrays without
        # names.
        names = vars(estimator).pop("feature_names_in_", None)
        return cls(estimator, None if names is None else [str(name) for name in names])

    def roles(self, drop: Sequence[str] | None = None, **others: str | None) -> Roles:
        """The model's columns, by name where there are names."""
        n_features = int(self.estimator.n_features_in_)
        return Roles(
            drop=tuple(drop or ()),
            features=self.names,
            n_features=n_features,
            **others,
        )

    def read(self, source: Source, drop: Sequence[str] | None = None) -> Sample:
        """Rows to predict."""
        return self._checked(source.read(self.roles(drop)))

    def read_labeled(self, source: Source, roles: Roles) -> tuple[Sample, np.ndarray]:
        """Rows to evaluate, with labels among the model's classes."""
        sample, y = source.read_labeled(roles)
        return self._checked(sample), labels_like(y, self.estimator.classes_)

    def _checked(self, sample: Sample) -> Sample:
        given = self.estimator.__sklearn_tags__().input_tags.pairwise
        if given != sample.given:
            wanted = "kernel values" if given else "columns"
            fail(
                f"expected {wanted} as in training, got "
                f"{'kernel values' if sample.given else 'columns'}; pass data of the "
                "same sort"
            )
        return sample


def require_one_stdin(*sources: str | None) -> None:
    """Refuse to read two files from standard input."""
    if sources.count(STDIN) > 1:
        fail("expected at most one file from standard input, got two; name the other")
