"""Every loader, on small files of the same layout and on the real ones."""

import gzip
from dataclasses import replace

import numpy as np
import pytest

from manykernels.datasets import (
    load_flowers17,
    load_mfeat,
    load_mnist,
    load_multiview,
    load_ocr_letters,
    load_tcga_breast,
    load_uci,
    mnist,
    multiview,
    uci,
    views,
)

LOADERS = [
    load_flowers17,
    load_mfeat,
    load_mnist,
    load_ocr_letters,
    load_tcga_breast,
    *(pytest.param(lambda d, n=n: load_uci(n, d), id=n) for n in uci.TABLES),
    *(
        pytest.param(lambda d, n=n: load_multiview(n, d), id=n)
        for n in multiview.MULTIVIEW
    ),
]


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


def test_unknown_table_lists_the_known_ones(tmp_path):
    with pytest.raises(ValueError, match="german, ionosphere, .* got 'iris'"):
        load_uci("iris", tmp_path)


def test_splice_download_is_coded_by_base(tmp_path, serve, monkeypatch):
    lines = [
        "EI,   NAME-1,    " + "ACGT" * 15,
        "N,    NAME-2,    " + "NSRD" * 15,
    ]
    original = "\n".join(lines * 1595).encode()
    table = uci.TABLES["splice"]
    file = replace(table.file, urls=tuple(serve(original)))
    monkeypatch.setitem(uci.TABLES, "splice", replace(table, file=file))
    splice = load_uci("splice", tmp_path)
    assert splice.data.shape == (3190, 240)
    assert splice.sequences[0] == "ACGT" * 15
    np.testing.assert_array_equal(splice.data[0, :16].reshape(4, 4), np.eye(4))
    third = 1 / 3
    expected = [
        [0.25] * 4,
        [0, 0.5, 0.5, 0],
        [0.5, 0, 0.5, 0],
        [third, 0, third, third],
    ]
    np.testing.assert_allclose(splice.data[1, :16].reshape(4, 4), expected)
    assert splice.feature_names[5] == "base2_C"


def test_splice_download_that_is_cut_off_is_refused(tmp_path, serve, monkeypatch):
    table = uci.TABLES["splice"]
    file = replace(table.file, urls=tuple(serve(b"EI, NAME, ACGT\n")))
    monkeypatch.setitem(uci.TABLES, "splice", replace(table, file=file))
    with pytest.raises(ValueError, match="1 rows instead of 3190"):
        load_uci("splice", tmp_path)
    assert not list(tmp_path.iterdir())


def test_table_with_a_broken_row_is_named(tmp_path):
    put(tmp_path, "uci_sonar/sonar.csv.gz", b"0.1,0.2,M\n0.1,R\n")
    with pytest.raises(ValueError, match=r"uci_sonar/sonar\.csv\.gz is damaged"):
        load_uci("sonar", tmp_path)


def test_mfeat_download_joins_six_tables(tmp_path, serve, monkeypatch):
    text = b"  1.5  2\n" * 2000
    file = replace(views.MFEAT, urls=tuple(serve(*[text] * 6)))
    monkeypatch.setattr(views, "MFEAT", file)
    mfeat = load_mfeat(tmp_path)
    assert list(mfeat.views) == ["fou", "fac", "kar", "pix", "zer", "mor"]
    np.testing.assert_array_equal(mfeat.views["zer"][-1], [1.5, 2])
    np.testing.assert_array_equal(np.bincount(mfeat.target), [200] * 10)


@pytest.fixture
def small_webkb(tmp_path):
    views = {"view0": np.eye(3, 4), "view1": np.ones((3, 2), np.float32)}
    (tmp_path / "multiview").mkdir()
    path = tmp_path / "multiview" / "webkb.npz"
    np.savez(path, **views, y=np.array([1, 2, 2], np.int32))
    return path


def test_sparse_views_are_sparse_and_named(small_webkb):
    pages = load_multiview("webkb", small_webkb.parents[1])
    assert list(pages.views) == list(pages.feature_names) == ["links", "words"]
    for view in pages.views.values():
        assert view.format == "csr" and view.dtype == np.float32
    np.testing.assert_array_equal(pages.views["links"].toarray(), np.eye(3, 4))
    np.testing.assert_array_equal(pages.target, [1, 2, 2])
    assert pages.feature_names["words"] == ["words0", "words1"]


@pytest.mark.parametrize("labels", [np.zeros(2), np.zeros(()), np.array(None)])
def test_views_with_other_rows_than_labels_are_refused(small_webkb, labels):
    arrays = {"view0": np.eye(3), "view1": np.eye(3), "y": labels}
    np.savez(small_webkb, allow_pickle=True, **arrays)
    with pytest.raises(ValueError, match=r"webkb\.npz is damaged"):
        load_multiview("webkb", small_webkb.parents[1])


def test_unknown_views_list_the_known_ones(tmp_path):
    with pytest.raises(ValueError, match="citeseer, movies, .* got 'cora'"):
        load_multiview("cora", tmp_path)


@pytest.mark.parametrize("load", LOADERS)
def test_missing_files_give_one_clear_sentence(load, tmp_path, monkeypatch):
    def offline(url, timeout):
        raise OSError("offline")

    monkeypatch.setattr("manykernels.datasets._files.urlopen", offline)
    monkeypatch.setenv("MANYKERNELS_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError) as caught:
        load(None) if load is not load_mnist else load()
    message = str(caught.value)
    assert str(tmp_path) in message
    assert "data_dir or MANYKERNELS_DATA" in message


def need(folder, *names):
    for name in names:
        if not (folder / name).exists():
            pytest.skip(f"no {name} in {folder}")


@pytest.mark.data
def test_real_mnist(data_dir):
    need(data_dir, "mnist")
    digits = load_mnist(n_test=100, data_dir=data_dir)
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    np.testing.assert_array_equal(np.bincount(digits.target), counts)
    assert digits.data.shape == (60000, 784)
    assert digits.data_test.shape == (100, 784)


@pytest.mark.data
@pytest.mark.parametrize(
    "name, shape, counts",
    [
        ("german", (1000, 24), [700, 300]),
        ("ionosphere", (351, 34), [126, 225]),
        ("ringnorm", (7400, 20), [3664, 3736]),
        ("sonar", (208, 60), [111, 97]),
        ("splice", (3190, 240), [767, 768, 1655]),
        ("waveform", (5000, 21), [1657, 1647, 1696]),
    ],
)
def test_real_tables(data_dir, name, shape, counts):
    need(data_dir, uci.TABLES[name].file.path)
    table = load_uci(name, data_dir)
    assert table.data.shape == shape == (len(table.target), len(table.feature_names))
    assert np.isfinite(table.data).all()
    labels, found = np.unique(table.target, return_counts=True)
    np.testing.assert_array_equal(labels, table.target_names)
    np.testing.assert_array_equal(found, counts)


@pytest.mark.data
@pytest.mark.parametrize("name", ["german", "ionosphere", "sonar"])
def test_checksums_belong_to_the_real_tables(data_dir, tmp_path, serve, name):
    file = uci.TABLES[name].file
    need(data_dir, file.path)
    original = gzip.decompress((data_dir / file.path).read_bytes())
    served = replace(file, urls=tuple(serve(original.replace(b"\n", b"\r\n"))))
    table = replace(uci.TABLES[name], file=served)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(uci.TABLES, name, table)
        downloaded = load_uci(name, tmp_path)
    np.testing.assert_array_equal(downloaded.data, load_uci(name, data_dir).data)


@pytest.mark.data
def test_real_flowers17(data_dir):
    need(data_dir, views.FLOWERS17.path)
    flowers = load_flowers17(data_dir)
    widths = {name: view.shape[1] for name, view in flowers.views.items()}
    assert widths == dict(
        hsv=256, lab=1024, sift_dense=400, sift_kp=400, hog=1764, lbp=177, gist=512
    )
    assert all(view.dtype == np.float32 for view in flowers.views.values())
    np.testing.assert_array_equal(np.bincount(flowers.target), [80] * 17)
    assert [np.bincount(split).tolist() for split in flowers.splits] == [
        [680, 340, 340]
    ] * 3


@pytest.mark.data
def test_real_mfeat(data_dir):
    need(data_dir, views.MFEAT.path)
    mfeat = load_mfeat(data_dir)
    widths = {name: view.shape[1] for name, view in mfeat.views.items()}
    assert widths == dict(fou=76, fac=216, kar=64, pix=240, zer=47, mor=6)
    np.testing.assert_array_equal(np.bincount(mfeat.target), [200] * 10)


@pytest.mark.data
@pytest.mark.parametrize(
    "name, n_rows, n_classes, widths",
    [
        ("citeseer", 3312, 6, [3312, 3703]),
        ("movies", 617, 17, [1878, 1398]),
        ("orl", 400, 40, [512, 59, 864, 254]),
        ("reuters1200", 1200, 6, [2000] * 5),
        ("scene15", 4485, 15, [20, 59, 40]),
        ("webkb", 1051, 2, [1840, 3000]),
        ("wikipedia", 2866, 10, [128, 10]),
    ],
)
def test_real_views(data_dir, name, n_rows, n_classes, widths):
    need(data_dir, f"multiview/{name}.npz")
    found = load_multiview(name, data_dir)
    shapes = [view.shape for view in found.views.values()]
    assert shapes == [(n_rows, width) for width in widths]
    assert found.target.shape == (n_rows,) and len(set(found.target)) == n_classes
    for view in found.views.values():
        filled = np.count_nonzero(view.toarray() if hasattr(view, "tocsr") else view)
        assert hasattr(view, "tocsr") == (filled < 0.1 * view.shape[0] * view.shape[1])


@pytest.mark.data
def test_real_tcga_breast(data_dir):
    need(data_dir, views.TCGA_BREAST.path)
    patients = load_tcga_breast(data_dir)
    assert [v.shape for v in patients.views.values()] == [
        (150, 200),
        (150, 184),
        (150, 142),
    ]
    assert [v.shape for v in patients.views_test.values()] == [(70, 200), (70, 184)]
    names, counts = np.unique(patients.target_test, return_counts=True)
    assert dict(zip(names, counts, strict=True)) == dict(Basal=21, Her2=14, LumA=35)
    assert len(patients.feature_names["protein"]) == 142


@pytest.mark.data
def test_real_ocr_letters(data_dir):
    need(data_dir, "ocr_letters")
    words = load_ocr_letters(data_dir)
    assert len(words.data) == len(words.target) == len(words.fold) == 6877
    assert sum(map(len, words.target)) == 52152
    lengths = [len(y) for y in words.target]
    assert [x.shape for x in words.data] == [(n, 128) for n in lengths]
    first = "".join(words.target_names[k] for k in words.target[0])
    assert first == "ommanding"
    assert set(np.unique(words.data[0])) == {0.0, 1.0}
