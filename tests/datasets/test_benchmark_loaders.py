"""Every loader of the benchmarks, on small files of the same layout, and real ones."""

import gzip
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

from manykernels.datasets.download import DataFile

TABLES = ("german", "ionosphere", "ringnorm", "sonar", "splice", "waveform")
VIEW_SETS = (
    *("citeseer", "movies", "orl", "reuters1200", "scene15", "webkb", "wikipedia"),
)
LOADERS = [
    *(("load_uci", name) for name in TABLES),
    *(("load_multiview", name) for name in VIEW_SETS),
    *((f"load_{name}",) for name in ("flowers17", "mfeat", "ocr_letters")),
    ("load_tcga_breast",),
]


@pytest.fixture
def loaders(scripts):
    return import_module("loaders")


@pytest.fixture
def files(loaders):
    return import_module("loaders.files")


def put(folder, name, content: bytes):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def test_damaged_gzip_is_named(files, tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(b"not gzip")
    with pytest.raises(ValueError, match=r"a\.csv\.gz is damaged"):
        files.read_lines(DataFile("a.csv.gz"), tmp_path)


@pytest.mark.parametrize("content", [b"not npz", b"PK\x03\x04 cut off"])
def test_damaged_npz_is_named(files, tmp_path, content):
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.npz is damaged"):
        files.read_arrays(DataFile("a.npz"), ["y"], tmp_path)


def test_missing_array_is_named(files, tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros(2))
    with pytest.raises(ValueError, match=r"a\.npz is damaged .*y"):
        files.read_arrays(DataFile("a.npz"), ["y"], tmp_path)


def test_pickled_arrays_are_refused(files, tmp_path):
    np.savez(tmp_path / "a.npz", y=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        files.read_arrays(DataFile("a.npz"), ["y"], tmp_path)


def test_unknown_table_lists_the_known_ones(loaders, tmp_path):
    with pytest.raises(ValueError, match="german, ionosphere, .* got 'iris'"):
        loaders.load_uci("iris", tmp_path)


def test_splice_download_is_coded_by_base(loaders, tmp_path, serve, monkeypatch):
    lines = [
        "EI,   NAME-1,    " + "ACGT" * 15,
        "N,    NAME-2,    " + "NSRD" * 15,
    ]
    original = "\n".join(lines * 1595).encode()
    table = loaders.uci.TABLES["splice"]
    file = replace(table.file, urls=tuple(serve(original)))
    monkeypatch.setitem(loaders.uci.TABLES, "splice", replace(table, file=file))
    splice = loaders.load_uci("splice", tmp_path)
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


def test_splice_download_that_is_cut_off_is_refused(
    loaders, tmp_path, serve, monkeypatch
):
    table = loaders.uci.TABLES["splice"]
    file = replace(table.file, urls=tuple(serve(b"EI, NAME, ACGT\n")))
    monkeypatch.setitem(loaders.uci.TABLES, "splice", replace(table, file=file))
    with pytest.raises(ValueError, match="1 rows instead of 3190"):
        loaders.load_uci("splice", tmp_path)
    assert not list(tmp_path.iterdir())


def test_table_with_a_broken_row_is_named(loaders, tmp_path):
    put(tmp_path, "uci_sonar/sonar.csv.gz", b"0.1,0.2,M\n0.1,R\n")
    with pytest.raises(ValueError, match=r"uci_sonar/sonar\.csv\.gz is damaged"):
        loaders.load_uci("sonar", tmp_path)


def test_mfeat_download_joins_six_tables(loaders, tmp_path, serve, monkeypatch):
    text = b"  1.5  2\n" * 2000
    file = replace(loaders.views.MFEAT, urls=tuple(serve(*[text] * 6)))
    monkeypatch.setattr(loaders.views, "MFEAT", file)
    mfeat = loaders.load_mfeat(tmp_path)
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


def test_sparse_views_are_sparse_and_named(loaders, small_webkb):
    pages = loaders.load_multiview("webkb", small_webkb.parents[1])
    assert list(pages.views) == list(pages.feature_names) == ["links", "words"]
    for view in pages.views.values():
        assert view.format == "csr" and view.dtype == np.float32
    np.testing.assert_array_equal(pages.views["links"].toarray(), np.eye(3, 4))
    np.testing.assert_array_equal(pages.target, [1, 2, 2])
    assert pages.feature_names["words"] == ["words0", "words1"]


@pytest.mark.parametrize("labels", [np.zeros(2), np.zeros(()), np.array(None)])
def test_views_with_other_rows_than_labels_are_refused(loaders, small_webkb, labels):
    arrays = {"view0": np.eye(3), "view1": np.eye(3), "y": labels}
    np.savez(small_webkb, allow_pickle=True, **arrays)
    with pytest.raises(ValueError, match=r"webkb\.npz is damaged"):
        loaders.load_multiview("webkb", small_webkb.parents[1])


def test_unknown_views_list_the_known_ones(loaders, tmp_path):
    with pytest.raises(ValueError, match="citeseer, movies, .* got 'cora'"):
        loaders.load_multiview("cora", tmp_path)


@pytest.mark.parametrize("loader", LOADERS, ids="-".join)
def test_missing_files_give_one_clear_sentence(loader, loaders, tmp_path, monkeypatch):
    def offline(url, timeout):
        raise OSError("offline")

    monkeypatch.setattr("manykernels.datasets.download.urlopen", offline)
    monkeypatch.setenv("MANYKERNELS_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError) as caught:
        getattr(loaders, loader[0])(*loader[1:])
    message = str(caught.value)
    assert str(tmp_path) in message
    assert "data_dir or MANYKERNELS_DATA" in message


def need(folder, *names):
    for name in names:
        if not (folder / name).exists():
            pytest.skip(f"no {name} in {folder}")


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
def test_real_tables(loaders, data_dir, name, shape, counts):
    need(data_dir, loaders.uci.TABLES[name].file.path)
    table = loaders.load_uci(name, data_dir)
    assert table.data.shape == shape == (len(table.target), len(table.feature_names))
    assert np.isfinite(table.data).all()
    labels, found = np.unique(table.target, return_counts=True)
    np.testing.assert_array_equal(labels, table.target_names)
    np.testing.assert_array_equal(found, counts)


@pytest.mark.data
@pytest.mark.parametrize("name", ["german", "ionosphere", "sonar"])
def test_checksums_belong_to_the_real_tables(loaders, data_dir, tmp_path, serve, name):
    file = loaders.uci.TABLES[name].file
    need(data_dir, file.path)
    original = gzip.decompress((data_dir / file.path).read_bytes())
    served = replace(file, urls=tuple(serve(original.replace(b"\n", b"\r\n"))))
    table = replace(loaders.uci.TABLES[name], file=served)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(loaders.uci.TABLES, name, table)
        downloaded = loaders.load_uci(name, tmp_path)
    np.testing.assert_array_equal(
        downloaded.data, loaders.load_uci(name, data_dir).data
    )


@pytest.mark.data
def test_real_flowers17(loaders, data_dir):
    need(data_dir, loaders.views.FLOWERS17.path)
    flowers = loaders.load_flowers17(data_dir)
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
def test_real_mfeat(loaders, data_dir):
    need(data_dir, loaders.views.MFEAT.path)
    mfeat = loaders.load_mfeat(data_dir)
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
def test_real_views(loaders, data_dir, name, n_rows, n_classes, widths):
    need(data_dir, f"multiview/{name}.npz")
    found = loaders.load_multiview(name, data_dir)
    shapes = [view.shape for view in found.views.values()]
    assert shapes == [(n_rows, width) for width in widths]
    assert found.target.shape == (n_rows,) and len(set(found.target)) == n_classes
    for view in found.views.values():
        filled = np.count_nonzero(view.toarray() if hasattr(view, "tocsr") else view)
        assert hasattr(view, "tocsr") == (filled < 0.1 * view.shape[0] * view.shape[1])


@pytest.mark.data
def test_real_tcga_breast(loaders, data_dir):
    need(data_dir, loaders.views.TCGA_BREAST.path)
    patients = loaders.load_tcga_breast(data_dir)
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
def test_real_ocr_letters(loaders, data_dir):
    need(data_dir, "ocr_letters")
    words = loaders.load_ocr_letters(data_dir)
    assert len(words.data) == len(words.target) == len(words.fold) == 6877
    assert sum(map(len, words.target)) == 52152
    lengths = [len(y) for y in words.target]
    assert [x.shape for x in words.data] == [(n, 128) for n in lengths]
    first = "".join(words.target_names[k] for k in words.target[0])
    assert first == "ommanding"
    assert set(np.unique(words.data[0])) == {0.0, 1.0}
