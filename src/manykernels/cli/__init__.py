"""The command line: ``manykernels fit``, ``predict``, ``report``, ``study``, ..."""

import sys
from typing import Any

LIBRARIES = ("typer", "rich")  # commands ask for what they need beside


def run() -> None:
    """Run the command, or say in one sentence what it needs to be installed."""
    from manykernels.base.imports import MissingLibraryError, require_library

    try:
        for library in LIBRARIES:
            require_library(library, "cli")
        from manykernels.cli.main import app

        app()
    except MissingLibraryError as error:
        sys.exit(f"Error: {error}")
    except KeyboardInterrupt:  # while libraries are imported
        sys.exit(130)


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module 'manykernels.cli' has no attribute {name!r}")
    from manykernels.cli.main import app

    return app
