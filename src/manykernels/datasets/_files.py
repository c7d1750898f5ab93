"""Find data files on disk, and download those that have a public original."""

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

import numpy as np

ENVIRONMENT_VARIABLE = "MANYKERNELS_DATA"
TIMEOUT = 30.0  # seconds without an answer from the server

PathLike = str | os.PathLike[str]


def first_part(parts: Sequence[bytes]) -> bytes:
    """Keep a single downloaded file as it is."""
    return parts[0]


@dataclass(frozen=True)
class DataFile:
    """A file of the data folder and where its public original lives.

    Parameters
    ----------
    path : str
        Place inside the data folder, e.g. ``"mnist/t10k-labels-idx1-ubyte.gz"``.
    urls : tuple of str
        Addresses of the public originals; empty when there is none.
    convert : callable
        Turns the downloaded originals into the unpacked content of the file.
    sha256 : str, optional
        Digest of that content. A download that differs is refused.
    """

    path: str
    urls: tuple[str, ...] = ()
    convert: Callable[[Sequence[bytes]], bytes] = first_part
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
    """Path of the file on disk; downloads it first if it is not there yet."""
    path = data_root(data_dir) / file.path
    if path.is_file():
        return path
    if not file.urls:
        raise FileNotFoundError(
            f"{path} was not found, and no public download exists in this format: "
            f"put the file {path.name} into {path.parent}, or name the folder that "
            f"holds {file.path} with data_dir or {ENVIRONMENT_VARIABLE}."
        )
    _write(path, _checked(file, _download(file, path)))
    return path


def _download(file: DataFile, path: Path) -> list[bytes]:
    """Raw bytes of every public original."""
    try:
        return [_read_url(url) for url in file.urls]
    except OSError as error:  # URLError and time-outs are OSErrors
        raise FileNotFoundError(
            f"{path} was not found and could not be downloaded from "
            f"{' '.join(file.urls)} ({error}): go online, or name the folder that "
            f"holds {file.path} with data_dir or {ENVIRONMENT_VARIABLE}."
        ) from error


def _read_url(url: str) -> bytes:
    with urlopen(url, timeout=TIMEOUT) as response:
        return bytes(response.read())


def _checked(file: DataFile, parts: Sequence[bytes]) -> bytes:
    """Content of the file, converted from its originals and verified."""
    with readable(" ".join(file.urls)):
        content = file.convert(parts)
        found = hashlib.sha256(content).hexdigest()
        if file.sha256 not in (None, found):
            raise ValueError(f"sha256 is {found}, expected {file.sha256}")
    return content


def _write(path: Path, content: bytes) -> None:
    """Write in one step, so that an interrupted download leaves no broken file."""
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
    except (OSError, EOFError, ValueError, LookupError) as error:
        reason: Exception = error
    except (zlib.error, zipfile.BadZipFile) as error:
        reason = error
    else:
        return
    raise ValueError(
        f"{source} is damaged or not in the expected format ({reason}): "
        "replace it, or delete the local copy and load again."
    ) from reason


def read_lines(file: DataFile, data_dir: PathLike | None = None) -> list[str]:
    """Non-empty lines of a gzipped text file."""
    path = locate(file, data_dir)
    with readable(path):
        text = gzip.decompress(path.read_bytes()).decode("ascii")
    return [line for line in text.splitlines() if line.strip()]


def read_arrays(
    file: DataFile, names: Sequence[str], data_dir: PathLike | None = None
) -> dict[str, np.ndarray]:
    """Named arrays of an npz file; pickled objects are never read."""
    path = locate(file, data_dir)
    with readable(path), np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in names}
