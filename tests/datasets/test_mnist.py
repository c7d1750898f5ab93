"""MNIST, on small files of the same layout and on the real ones."""

import gzip

import numpy as np
import pytest

from manykernels.datasets import load_mnist, mnist


def idx(items: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, items.ndim])
    return header + np.array(items.shape, ">u4").tobytes() + items.tobytes()


def put(folder, name, content: bytes):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


@pytest.fixture
def small_mnist(tmp_path):
    rng = np.random.default_rng(0)
    for part, n in (("train", 6), ("t10k", 4)):
        pixels = rng.integers(0, 256, (n, 28, 28), dtype=np.uint8)
        put(tmp_path, f"mnist/{part}-images-idx3-ubyte.gz", idx(pixels))
        labels = np.arange(n, dtype=np.uint8)
        put(tmp_path, f"mnist/{part}-labels-idx1-ubyte.gz", idx(labels))
    return tmp_path


def test_mnist_takes_the_first_images(small_mnist):
    whole = load_mnist(data_dir=small_mnist)
    part = load_mnist(n_train=2, n_test=3, data_dir=small_mnist)
    assert whole.data.shape == (6, 784)
    assert whole.data.dtype == np.float32
    assert 0 <= whole.data.min() < 0.01 and 0.99 < whole.data.max() <= 1
    np.testing.assert_array_equal(part.data, whole.data[:2])
    np.testing.assert_array_equal(part.data_test, whole.data_test[:3])
    np.testing.assert_array_equal(part.target_test, [0, 1, 2])
    assert part.feature_names[28 + 2] == "pixel_1_2"


@pytest.mark.parametrize("count", [0, -1, 7])
def test_mnist_count_out_of_range(small_mnist, count):
    with pytest.raises(ValueError, match=f"between 1 and 6 .*got {count}"):
        load_mnist(n_train=count, data_dir=small_mnist)


@pytest.mark.parametrize(
    "content", [b"\1\2\3\4", b"", idx(np.zeros((3, 28, 28), np.uint8))[:-5]]
)
def test_mnist_damaged_file(small_mnist, content):
    put(small_mnist, mnist.TEST_IMAGES.path, content)
    with pytest.raises(ValueError, match=r"t10k-images-idx3-ubyte\.gz is damaged"):
        load_mnist(data_dir=small_mnist)


def test_missing_files_give_one_clear_sentence(tmp_path, monkeypatch):
    def offline(url, timeout):
        raise OSError("offline")

    monkeypatch.setattr("manykernels.datasets.download.urlopen", offline)
    with pytest.raises(FileNotFoundError) as caught:
        load_mnist(data_dir=tmp_path)
    message = str(caught.value)
    assert str(tmp_path) in message
    assert "data_dir or MANYKERNELS_DATA" in message


@pytest.mark.data
def test_real_mnist(data_dir):
    if not (data_dir / "mnist").is_dir():
        pytest.skip(f"no folder mnist in {data_dir}")
    digits = load_mnist(n_test=100, data_dir=data_dir)
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    np.testing.assert_array_equal(np.bincount(digits.target), counts)
    assert digits.data.shape == (60000, 784)
    assert digits.data_test.shape == (100, 784)
