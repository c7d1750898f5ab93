"""Safe files: models as plain data, never as code; one way in and out."""

from manykernels.files.container import ModelFileError, read_container, write_container
from manykernels.files.plain import from_plain, to_plain
from manykernels.files.saved import Saved, by_weight, certificate, load

__all__ = [
    "ModelFileError",
    "Saved",
    "by_weight",
    "certificate",
    "from_plain",
    "load",
    "read_container",
    "to_plain",
    "write_container",
]
