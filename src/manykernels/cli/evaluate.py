"""``manykernels evaluate``: how good a model is on the rows of a file."""

from __future__ import annotations

import typer

from manykernels.cli import options as opt
from manykernels.cli.data import Loaded, Source
from manykernels.cli.metrics import measure
from manykernels.cli.outputs import print_json
from manykernels.cli.summary import metric_lines


def evaluate(
    model: opt.Model,
    data: opt.Data,
    target: opt.Target = None,
    weight: opt.Weight = None,
    drop: opt.Drop = None,
    format: opt.Format = None,
    header: opt.Header = None,
    as_json: opt.AsJson = False,
) -> None:
    """Compare a model's predictions with the labels in a file.

    manykernels evaluate model.mk test.csv --target kind
    """
    loaded = Loaded.of(model)
    roles = loaded.roles(drop, target=target, weight=weight)
    sample, y = loaded.read_labeled(Source(data, format, header), roles)
    content = measure(loaded.estimator, sample, y)
    if as_json:
        print_json(content)
        return
    for line in metric_lines(content):
        typer.echo(line)
