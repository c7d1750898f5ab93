"""The command line: ``manykernels fit | predict | evaluate | inspect | demo``."""

from manykernels.cli.app import app

__all__ = ["app"]
