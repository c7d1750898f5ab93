"""The command line: ``manykernels demo`` and ``manykernels --version``."""

from manykernels.cli.app import app

__all__ = ["app"]
