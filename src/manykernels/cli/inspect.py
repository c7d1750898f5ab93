"""``manykernels inspect``: what a model file holds, without the data."""

from __future__ import annotations

import typer

from manykernels.cli import options as opt
from manykernels.cli.data import Loaded
from manykernels.cli.outputs import check_picture, print_json
from manykernels.cli.summary import describe, model_lines
from manykernels.files.container import VERSION


def inspect(
    model: opt.Model, as_json: opt.AsJson = False, plot: opt.Plot = None
) -> None:
    """Show kernels with their weights, classes and the certificate.

    manykernels inspect model.mk --plot weights.png
    """
    from manykernels import __version__

    check_picture("--plot", plot)
    loaded = Loaded.of(model)
    content = {
        "file": str(model),
        "bytes": model.stat().st_size,
        "file_version": VERSION,  # others are refused by load
        "manykernels": __version__,
        **describe(loaded.estimator, loaded.names),
    }
    if plot is not None:
        from manykernels.report import plot_fit  # matplotlib takes a while

        plot_fit(loaded.estimator).savefig(plot, dpi=110)
    if as_json:
        print_json(content)
        return
    typer.echo(
        f"{content['file']}: {content['bytes']:,} bytes, file version {VERSION}, read "
        f"by manykernels {__version__}"
    )
    for line in model_lines(content):
        typer.echo(line)
