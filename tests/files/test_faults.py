"""Every call that touches the disk fails once: nothing is lost, and it is said."""

import errno
import io
import os
import warnings

import numpy as np
import pytest

import manykernels as mk
from manykernels.banks import gramfile
from manykernels.banks.gramfile import stored_file
from manykernels.base import disk
from manykernels.files import ModelFileError, read_container
from manykernels.files.checkpoint import CheckpointWarning
from manykernels.kernels import RBF
from manykernels.kernels.kernel_set import KernelSet
from tests.oracles.toys import blobs

X, y = blobs(24, 3, seed=8, spread=1.5)
ERRORS = [errno.ENOSPC, errno.EACCES, errno.EIO]


class Faulty:
    """A module in which one call fails, the n-th to any of these functions."""

    def __init__(self, module, names, n, code):
        self._module, self._names = module, names
        self._left, self._code = n, code
        self.failed = None

    def __getattr__(self, name):
        found = getattr(self._module, name)
        return self._failing(name, found) if name in self._names else found

    def _failing(self, name, function):
        def call(*arguments, **options):
            self._left -= 1
            if self._left == 0:
                self.failed = name
                raise OSError(self._code, os.strerror(self._code))
            found = function(*arguments, **options)
            return FaultyStream(found, self) if name == "fdopen" else found

        return call


class FaultyStream:
    """A stream whose reads, writes and flushes count as calls as well."""

    def __init__(self, stream, faulty):
        self._stream, self._faulty = stream, faulty

    def __getattr__(self, name):
        found = getattr(self._stream, name)
        counted = name in ("write", "flush", "read", "readinto")
        return self._faulty._failing(name, found) if counted else found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stream.close()


CALLS = ("open", "fdopen", "fsync", "replace", "stat", "chmod")


def faults(monkeypatch, action, module=disk):
    """Run the action with its first call failing, then its second, and so on."""
    for n in range(1, 200):
        faulty = Faulty(os, CALLS, n, ERRORS[n % len(ERRORS)])
        monkeypatch.setattr(module, "os", faulty)
        action(faulty)
        monkeypatch.setattr(module, "os", os)
        if faulty.failed is None:
            return n - 1
    raise AssertionError("expected the calls to end")


def fitted(C=1.0, **settings):
    return mk.MKLClassifier("rbf; linear", C=C, random_state=0, **settings).fit(X, y)


def test_no_failing_call_loses_a_model(tmp_path, monkeypatch):
    path = tmp_path / "model"
    old, new = fitted(), fitted(5.0)
    old.save(path)
    kept = {old.C: old.predict_proba(X), new.C: new.predict_proba(X)}
    seen = set()

    def save(faulty):
        try:
            new.save(path)
        except OSError as error:
            words = str(error)
            assert words.startswith("expected ") and words.endswith("."), faulty.failed
            assert str(path) in words
        seen.add(faulty.failed)
        monkeypatch.setattr(disk, "os", os)
        assert os.listdir(tmp_path) == ["model"], faulty.failed
        found = mk.load(path)
        np.testing.assert_array_equal(found.predict_proba(X), kept[found.C])
        assert found.C == new.C or faulty.failed is not None
        old.save(path)

    assert faults(monkeypatch, save) > 8
    assert {"open", "write", "flush", "fsync", "replace", "chmod"} <= seen


def test_no_failing_read_gives_another_model(tmp_path, monkeypatch):
    path = tmp_path / "model"
    fitted().save(path)
    before = path.read_bytes()

    def load(faulty):
        try:
            mk.load(path)
        except OSError as error:
            words = str(error)
            assert words.startswith("expected to read ") and words.endswith("disk.")
            assert error.__cause__.errno in ERRORS
        else:
            assert faulty.failed is None
        assert path.read_bytes() == before

    assert faults(monkeypatch, load) >= 4


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_short_reads_are_no_model(share, tmp_path, monkeypatch):
    """A read that ends early, as on a failing disk or a file that shrinks."""
    path = tmp_path / "model"
    fitted().save(path)

    class Short(FaultyStream):
        def read(self, size=-1):
            return self._stream.read(size)[: int(share * size)]

    class Shortened(Faulty):
        def fdopen(self, *arguments):
            return Short(os.fdopen(*arguments), self)

    monkeypatch.setattr(disk, "os", Shortened(os, (), 0, 0))
    with pytest.raises(
        ModelFileError, match="whole manykernels model file, got .*, but "
    ):
        mk.load(path)


def test_no_failing_call_ends_a_fit_or_spoils_its_checkpoint(tmp_path, monkeypatch):
    path, settings = tmp_path / "state", {"tol": 3e-2, "C": 5.0}
    fitted(tol=0.5, C=5.0, checkpoint=path)
    before = path.read_bytes()
    whole = fitted(**settings, checkpoint=path)
    seen = set()

    def resume(faulty):
        path.write_bytes(before)
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                model = fitted(**settings, checkpoint=path)
        except OSError:  # the state could not be read: the file stays as it was
            monkeypatch.setattr(disk, "os", os)
            assert path.read_bytes() == before
            seen.add("read")
            return
        words = [str(w.message) for w in said if w.category is CheckpointWarning]
        assert len(words) == (faulty.failed is not None)
        if words:
            assert "the fit goes on: expected to write" in words[0]
            seen.add("written")
        np.testing.assert_array_equal(model.dual_coef_, whole.dual_coef_)
        monkeypatch.setattr(disk, "os", os)
        assert os.listdir(tmp_path) == ["state"]
        read_container(path)  # an earlier state or the last one, but whole

    faults(monkeypatch, resume)
    assert seen == {"read", "written"}


def test_no_failing_call_spoils_a_gram_file(tmp_path, monkeypatch):
    kernels = KernelSet.fit([RBF(0.5)], X)
    right = stored_file(kernels)[np.arange(len(X))]

    def build(faulty):
        try:
            stored_file(kernels, folder=tmp_path)
        except OSError as error:
            words = str(error)
            assert "must be written to" in words or words.startswith("expected to writ")
        monkeypatch.setattr(disk, "os", os)
        monkeypatch.setattr(gramfile, "os", os)
        assert not [name for name in os.listdir(tmp_path) if "draft" in name]
        file = stored_file(kernels, folder=tmp_path)
        np.testing.assert_array_equal(file[np.arange(len(X))], right)
        for path in tmp_path.iterdir():
            path.unlink()

    assert faults(monkeypatch, build) > 10
    assert faults(monkeypatch, build, gramfile) >= 1


@pytest.mark.parametrize("name", ["write", "seek"])
def test_no_failing_stream_spoils_a_gram_file(name, tmp_path, monkeypatch):
    kernels = KernelSet.fit([RBF(0.5)], X)
    right = stored_file(kernels)[np.arange(len(X))]

    class Failing(io.FileIO):
        pass

    def fail(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    setattr(Failing, name, fail)
    with monkeypatch.context() as patch:
        patch.setattr(gramfile, "open", Failing, raising=False)
        with pytest.raises(OSError, match="Input/output error"):
            stored_file(kernels, folder=tmp_path)
    file = stored_file(kernels, folder=tmp_path)
    np.testing.assert_array_equal(file[np.arange(len(X))], right)
