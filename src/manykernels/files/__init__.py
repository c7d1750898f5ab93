"""Safe files: models as plain data, never as code."""

from manykernels.files.container import ModelFileError, read_container, write_container
from manykernels.files.plain import from_plain, to_plain

__all__ = [
    "ModelFileError",
    "from_plain",
    "read_container",
    "to_plain",
    "write_container",
]
