"""Find data files on disk, and download those that have a public original.

`DataFile`, `locate` and `readable` also serve the loaders of ``benchmarks/loaders``.
"""

import gzip
import hashlib
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import urlopen

ENVIRONMENT_VARIABLE = "MANYKERNELS_DATA"
SERVER_TIMEOUT = 30.0  # seconds without an answer
# What gzip, zip, NumPy and the parsers raise for broken bytes.
DAMAGE = (OSError, EOFError, ValueError, LookupError, zlib.error, zipfile.BadZipFile)

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class DataFile:
    """A file of the data folder and where its public original lives.

    Parameters
    ----------
    path : str
        Path inside the data folder, e.g. ``"mnist/t10k-labels-idx1-ubyte.gz"``.
    urls : tuple of str
        Addresses of the public originals; empty when there is none.
    convert : callable
        Turns the downloaded originals into the unpacked content of the file.
    sha256 : str, optional
        Digest of that content. A download that differs is refused.
    """

    path: str
    urls: tuple[str, ...] = ()
    convert: Callable[[Sequence[bytes]], bytes] = b"".join
    sha256: str | None = None


def data_root(data_dir: PathLike | None = None) -> Path:
    """Folder of the data files: argument, else environment, else user's cache."""
    if data_dir is not None:
        return Path(data_dir).expanduser()
    if chosen := os.environ.get(ENVIRONMENT_VARIABLE):
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "manykernels"


def locate(file: DataFile, data_dir: PathLike | None = None) -> Path:
    """Path of the file on disk; download it first if it is missing."""
    path = data_root(data_dir) / file.path
    if path.is_file():
        return path
    if not file.urls:
        raise FileNotFoundError(
            f"{path} was not found, and no public download exists in this format: "
            f"put the file {path.name} into {path.parent}, or name the folder that "
            f"holds {file.path} with data_dir or {ENVIRONMENT_VARIABLE}."
        )
    _write(path, _download(file, path))
    return path


def _download(file: DataFile, path: Path) -> bytes:
    """Content of the file, converted from its public originals and verified."""
    parts = []
    try:
        for url in file.urls:
            with urlopen(url, timeout=SERVER_TIMEOUT) as response:
                parts.append(bytes(response.read()))
    except OSError as error:  # URLError and time-outs are OSErrors
        raise FileNotFoundError(
            f"{path} was not found and could not be downloaded from "
            f"{' '.join(file.urls)} ({error}): go online, or name the folder that "
            f"holds {file.path} with data_dir or {ENVIRONMENT_VARIABLE}."
        ) from error
    with readable(" ".join(file.urls)):
        content = file.convert(parts)
        digest = hashlib.sha256(content).hexdigest()
        if file.sha256 not in (None, digest):
            raise ValueError(f"sha256 is {digest}, expected {file.sha256}")
    return content


def _write(path: Path, content: bytes) -> None:
    """Write in one step, so that an interrupted download leaves no broken file."""
    # Files are packed here, so that digests need not depend on a version of gzip.
    if path.suffix == ".gz":
        content = gzip.compress(content, mtime=0)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=path.parent, prefix=".download-") as folder:
            part = Path(folder) / path.name
            part.write_bytes(content)
            os.replace(part, path)
    except OSError as error:
        raise PermissionError(
            f"{path} was not found and cannot be written after a download ({error}): "
            f"name a writable folder with data_dir or {ENVIRONMENT_VARIABLE}."
        ) from error


@contextmanager
def readable(source: PathLike) -> Iterator[None]:
    """Turn whatever a damaged file raises into one sentence that names it."""
    try:
        yield
    except DAMAGE as error:
        raise ValueError(
            f"{source} is damaged or not in the expected format ({error}): "
            "replace it, or delete the local copy and load again."
        ) from error
