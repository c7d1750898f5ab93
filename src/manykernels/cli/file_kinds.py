"""What the commands do with files of one kind: rows, tokens or sentences."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from manykernels.cli.errors import fail
from manykernels.cli.metrics import metric_lines, summary_lines
from manykernels.cli.options import Given
from manykernels.cli.outputs import check_files, print_results
from manykernels.files import load


class FileKind(ABC):
    """Files of one kind and the models that read them."""

    @abstractmethod
    def predict(self, model: Any, given: Given) -> None:
        """Write predictions for the file DATA to --out."""

    @abstractmethod
    def evaluate(self, model: Any, given: Given) -> dict[str, Any]:
        """Compare predictions with the truth in the file DATA."""


class LearnedFileKind(FileKind):
    """A kind with a command of its own, which learns, predicts and evaluates."""

    input_kind: str  # of its models
    model_name: str
    purpose: str  # of DATA

    @abstractmethod
    def learn(self, given: Given) -> Any:
        """Fit a model on the file --train and save it."""

    def run(self, given: Given) -> None:
        """Learn from --train if given; then predict or evaluate DATA, or sum up."""
        train = given.train
        if given.data is None and train is None:
            fail(
                f"expected a file to {self.purpose}, or --train, got neither; name one"
            )
        read = {"DATA": given.data, "--train": train}
        models = {"--model": given.model, "--tag": given.tag}
        # A model is read, or it is learned and written.
        if train is None:
            check_files({**read, **models}, {"--out": given.out})
            model = load_as(self.input_kind, self.model_name, given.model)
        else:
            check_files(read, {**models, "--out": given.out})
            model = self.learn(given)
        if given.data is None:
            print_results(model.summary(), given.as_json, summary_lines)
        elif given.score:
            content = self.evaluate(model, given)
            print_results(content, given.as_json, metric_lines)
        else:
            self.predict(model, given)


def load_as(input_kind: str, model_name: str, path: Path) -> Any:
    """The model in a file; raise unless it reads files of this kind."""
    model = load(path)
    if model.input_kind != input_kind:
        fail(
            f"expected the file of a {model_name}, got one of {type(model).__name__}; "
            f"learn a {model_name} with --train"
        )
    return model
