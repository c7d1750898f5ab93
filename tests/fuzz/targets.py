"""What is fuzzed: how an input is made from a seed, and what is done with it.

An input is bytes, so that any of them can be kept in a file and tried again.
"""

import signal
import tempfile
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from typer.testing import CliRunner

import manykernels as mk
from manykernels.banks import GramFileError
from manykernels.cli import app
from manykernels.cli.kernel_files import parse_kernels
from manykernels.cli.roles import TableError
from manykernels.files import ModelFileError
from manykernels.kernels.grammar import as_kernels
from manykernels.kernels.kernel_set import KernelSet
from tests.fuzz import models, tables
from tests.fuzz.memory import require_little_memory
from tests.fuzz.mutate import one_of
from tests.fuzz.tables import NAMES, X, csv_seeds, mutating

SECONDS = 20.0  # of a processor, after which an input counts as a hang


class UnclearError(AssertionError):
    """An input that was neither accepted nor refused in a clear sentence."""


@dataclass(frozen=True)
class Target:
    """One sort of input."""

    make: Callable[[np.random.Generator], bytes]
    run: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...]
    one_sentence: bool = True
    file: bool = False  # whose size bounds the memory that it takes

    def attempt(self, content: bytes) -> bool:
        """Whether an input was accepted; raises unless it is, or is clearly refused."""
        with _limited(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                with self._watched(len(content)):
                    self.run(content)
            except self.refusals as error:
                self._require_clear(error)
                return False
            except UnclearError:
                raise
            except Exception as error:
                raise UnclearError(f"{type(error).__name__}: {error}") from error
        return True

    def _watched(self, n_bytes: int) -> AbstractContextManager[None]:
        return require_little_memory(n_bytes) if self.file else nullcontext()

    def _require_clear(self, error: Exception) -> None:
        message = str(error)
        sentence = "\n" not in message and message.endswith((".", "?"))
        if len(message) < 20 or (self.one_sentence and not sentence):
            raise UnclearError(f"no clear sentence: {message!r}") from error


@contextmanager
def _limited():
    """Turn an endless loop into an error, where the system has alarms."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_):
        raise UnclearError(f"took more than {SECONDS:g} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


# --- kernels -----------------------------------------------------------------------

TOML_SEEDS = [
    b'kernels = ["rbf:gamma=0.5@0-1", "linear"]\n',
    b'[[kernel]]\nkind = "rbf"\ngamma = 0.5\ncolumns = "b*"\nname = "n"\n'
    b'[[kernel]]\nkind = "polynomial"\ndegree = 2\ncoef0 = 1.0\ncolumns = ["a", 2]\n'
    b'center = true\nnormalize = "none"\n',
    b'[[kernel]]\nkind = "bspline"\nwidth = "sparse"\ncolumns = 1\n',
]
GRAMMAR_SEEDS = [
    b"rbf:gamma=0.5@0-1; linear",
    b"polynomial:degree=2,coef0=1.0,center=true@a+b one",
    b"rbf:gamma=0.1*scale,normalize=none,name=n%20m@0:3",
    b"bspline:width=0.5,degree=2@3; constant; cosine@-1",
    b"rbf:approximate=nystroem,rank=3@0-1; rbf:approximate=random_features,rank=8",
    b"laplacian:gamma=median@c*; chi_squared:gamma=mean@0+2; intersection",
]


def _use_kernels(kernels: list) -> None:
    """Evaluate the kernels on a few rows, as a fit would."""
    KernelSet.fit(kernels, np.abs(X), feature_names=NAMES).stack()


def _read_toml(content: bytes) -> None:
    _use_kernels(parse_kernels(content.decode(errors="replace")))


def _read_grammar(content: bytes) -> None:
    _use_kernels(as_kernels(content.decode(errors="replace")))


# --- estimators ----------------------------------------------------------------------


def _some_seed(rng) -> bytes:
    return str(int(rng.integers(2**63))).encode()


def _some_rows(rng):
    n, d = int(one_of(rng, [20] * 6 + [0, 1, 2, 5])), int(one_of(rng, [3] * 6 + [0, 1]))
    scale = 10.0 ** float(one_of(rng, [0] * 6 + [3, 18, -9, 150]))
    values = rng.normal(size=(n, d)) * scale
    for value in (np.nan, np.inf, -np.inf, 1e308, 0.0):
        if values.size and rng.random() < 0.03:
            values[rng.integers(n), rng.integers(d)] = value
    forms = [
        *(np.float32, np.asfortranarray, sp.csr_array, sp.csc_matrix, list, np.ravel),
        *(lambda v: v.astype(str), lambda v: v.astype(object), lambda v: v + 1j),
        *(lambda v: v.astype(int), lambda v: v[:, :, None], lambda v: v > 0),
        *(lambda v: None, lambda v: v @ v.T),
    ]
    form = one_of(rng, forms) if rng.random() < 0.4 else np.asarray
    return form(values), n


def _some_labels(rng, n):
    labels = rng.integers(0, int(one_of(rng, [2, 3, 3, 1])), size=n)
    forms = [
        *(lambda v: np.array(["a", "b", "c"])[v], list, lambda v: v > 0),
        *(lambda v: v.astype(float), lambda v: v + 0.5, lambda v: v * 1e300),
        *(lambda v: v[:, None], lambda v: v[:-1], lambda v: None),
        *(lambda v: v.astype("S"), lambda v: v.astype(object), lambda v: np.eye(3)[v]),
        lambda v: np.where(v > 0, np.nan, v),
    ]
    form = one_of(rng, forms) if rng.random() < 0.3 else np.asarray
    return form(labels)


PARAMS = {
    "kernels": ["rbf", "linear; rbf@0", "precomputed", "cosine", "rbf@x", [], 3],
    "p": [1.0, 1.5, 2.0, 0.5, np.nan, "1", None],
    "C": [1e-9, 100.0, 1e9, 0, -1, np.inf, "x"],
    "tol": [0.5, 0.0, -1, np.nan],
    "max_iter": [20, 1, 0, 2.5, "x"],
    "solver": ["obscure", "pegasos", "dual_ascent", "x", None],
    "class_weight": ["balanced", "x", {0: 2.0}, {9: 1.0}, 3],
    "storage": [
        "gram",
        "features",
        "on_demand",
        "memmap:float16",
        "float64",
        "gram:int8",
        "x",
        None,
    ],
    "approximate": ["nystroem", "nystroem:5", "random_features:1000", "x:0", 3],
    "memory_limit": ["1GB", 10, "x", -1],
    "random_state": [None, -1, "x"],
}


def _estimate(content: bytes) -> None:
    """Fit and predict on an input that the seed in the content stands for."""
    rng = np.random.default_rng(int(content))
    rows, n = _some_rows(rng)
    labels = _some_labels(rng, n)
    params = {"max_iter": 3, "random_state": 0}
    for name, values in PARAMS.items():
        if rng.random() < 0.08:
            params[name] = one_of(rng, values)
    weights = [np.ones(n), -np.ones(n), np.zeros(n), np.full(n, 1e300), "x"]
    weight = one_of(rng, weights) if rng.random() < 0.1 else None
    model = mk.MKLClassifier(**params).fit(rows, labels, weight)
    new = rows if rng.random() < 0.7 else _some_rows(rng)[0]
    if not np.isfinite(model.decision_function(new)).all():
        raise UnclearError("scores that are not finite")
    if not np.isin(model.predict(new), model.classes_).all():
        raise UnclearError("predictions that are no classes")


# --- commands ------------------------------------------------------------------------


def _command(content: bytes) -> None:
    """Fit on a file, then predict: exit codes 0 or 2, and one line of error."""
    with tempfile.TemporaryDirectory() as folder:
        path, model = Path(folder) / "rows.csv", str(Path(folder) / "model")
        path.write_bytes(content)
        fit = ["fit", str(path), "-t", "y", "-m", model, "--max-iter", "3", "--quiet"]
        for arguments in (fit, ["predict", model, str(path)]):
            result = CliRunner().invoke(app, arguments)
            if result.exit_code == 0:
                continue
            message = result.stderr.strip().splitlines()[-1:]
            if result.exit_code != 2 or not message[0].startswith("Error: "):
                raise UnclearError(f"exit {result.exit_code}: {result.exception!r}")
            raise TableError(message[0].removeprefix("Error: "))


OWN = (ValueError, TypeError)
File = partial(Target, file=True)

TARGETS = {
    "model": Target(
        models.make_model, models.load_model, (ModelFileError, models.SaidLaterError)
    ),
    "checkpoint": Target(models.make_checkpoint, models.resume, (ValueError,)),
    "gram": File(models.make_gram, models.read_gram, (GramFileError,)),
    "csv": File(mutating(csv_seeds, b","), tables.read_csv, (TableError,)),
    "npz": File(tables.make_npz, tables.load_npz, (TableError,)),
    "libsvm": File(
        mutating(tables.libsvm_seeds, b" "), tables.load_libsvm, (TableError,)
    ),
    "parquet": File(tables.make_parquet, tables.load_parquet, (TableError,)),
    "conllu": File(
        mutating(tables.conllu_seeds, b"\t"), tables.load_conllu, (ValueError,)
    ),
    "gmt": File(mutating(tables.gmt_seeds, b"\t"), tables.load_gmt, (ValueError,)),
    "toml": Target(mutating(lambda: TOML_SEEDS, b" "), _read_toml, OWN),
    "grammar": Target(mutating(lambda: GRAMMAR_SEEDS, b":"), _read_grammar, OWN),
    "command": Target(mutating(lambda: csv_seeds()[:1], b","), _command, (TableError,)),
    # scikit-learn's own checks speak in several lines.
    "estimator": Target(
        _some_seed, _estimate, (*OWN, MemoryError, NotFittedError), one_sentence=False
    ),
}
# Of files: what a stranger may send.
FORMATS = "model checkpoint gram npz csv parquet libsvm conllu gmt".split()
