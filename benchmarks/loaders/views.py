"""Data sets whose features come in several views: one or more kernels for each."""

import io
from collections.abc import Sequence

import numpy as np
from sklearn.utils import Bunch

from loaders.files import read_arrays
from manykernels.datasets.download import DataFile, PathLike

FLOWERS17_VIEWS = ("hsv", "lab", "sift_dense", "sift_kp", "hog", "lbp", "gist")
MFEAT_VIEWS = ("fou", "fac", "kar", "pix", "zer", "mor")
TCGA_VIEWS = ("mrna", "mirna", "protein")

_MFEAT_SOURCE = "https://archive.ics.uci.edu/ml/machine-learning-databases/mfeat/"


def _pack_mfeat(parts: Sequence[bytes]) -> bytes:
    """Join the six text tables; rows are ordered by class, 200 of each."""
    views: dict[str, np.ndarray] = {
        name: np.loadtxt(io.BytesIO(part), ndmin=2)
        for name, part in zip(MFEAT_VIEWS, parts, strict=True)
    }
    if any(len(view) != 2000 for view in views.values()):
        raise ValueError("a view does not have 2000 rows")
    views["y"] = np.arange(10).repeat(200)
    stream = io.BytesIO()
    np.savez_compressed(stream, **views)  # type: ignore[arg-type]
    return stream.getvalue()


FLOWERS17 = DataFile("flowers17_features/flowers17_7views.npz")
TCGA_BREAST = DataFile("tcga_breast/tcga_breast.npz")
MFEAT = DataFile(
    "uci_mfeat/mfeat.npz",
    tuple(f"{_MFEAT_SOURCE}mfeat-{name}" for name in MFEAT_VIEWS),
    _pack_mfeat,
)


def load_flowers17(data_dir: PathLike | None = None) -> Bunch:
    """Load seven feature views of the Oxford Flowers-17 images (1,360 x 17 species).

    The views are not the published distance matrices and the splits are not the
    published ones, so results cannot be set beside those of the literature.

    Parameters
    ----------
    data_dir : path, optional
        Folder of the data files (see `manykernels.datasets`).

    Returns
    -------
    Bunch
        ``views``: dict of float32 arrays, color histograms ``hsv`` and ``lab``, word
        counts ``sift_dense`` and ``sift_kp``, and ``hog``, ``lbp``, ``gist``;
        ``target`` (1360,); ``splits`` (3, 1360): 0 train, 1 validation, 2 test;
        ``image_id``, ``feature_names`` (dict of lists), ``DESCR``.
    """
    names = (*FLOWERS17_VIEWS, "y", "split", "image_id")
    stored = read_arrays(FLOWERS17, names, data_dir)
    views = {name: stored[name].astype(np.float32) for name in FLOWERS17_VIEWS}
    return Bunch(
        views=views,
        target=stored["y"].astype(np.int64),
        splits=stored["split"].astype(np.int64),
        image_id=stored["image_id"].astype(np.int64),
        feature_names=_numbered(views),
        DESCR="Oxford Flowers-17 (Nilsback, Zisserman 2006), 7 computed feature views.",
    )


def load_mfeat(data_dir: PathLike | None = None) -> Bunch:
    """Load Multiple Features: 2,000 handwritten numerals in six views.

    Parameters
    ----------
    data_dir : path, optional
        Folder of the data files (see `manykernels.datasets`).

    Returns
    -------
    Bunch
        ``views``: dict of float64 arrays ``fou`` (Fourier), ``fac`` (profile
        correlations), ``kar`` (Karhunen-Loeve), ``pix`` (pixel averages), ``zer``
        (Zernike moments), ``mor`` (morphological); ``target`` (2000,), ordered by
        class; ``feature_names`` (dict of lists), ``DESCR``.
    """
    stored = read_arrays(MFEAT, (*MFEAT_VIEWS, "y"), data_dir)
    views = {name: stored[name].astype(np.float64) for name in MFEAT_VIEWS}
    return Bunch(
        views=views,
        target=stored["y"].astype(np.int64),
        feature_names=_numbered(views),
        DESCR="Multiple Features (R. Duin, UCI), 10 classes of 200 numerals.",
    )


def load_tcga_breast(data_dir: PathLike | None = None) -> Bunch:
    """Load breast cancer subtypes from three molecular views.

    The protein view is missing for all test patients.

    Parameters
    ----------
    data_dir : path, optional
        Folder of the data files (see `manykernels.datasets`).

    Returns
    -------
    Bunch
        ``views``: dict of (150, .) float64 arrays ``mrna``, ``mirna``, ``protein``;
        ``views_test``: dict of (70, .) arrays ``mrna``, ``mirna``; ``target`` and
        ``target_test``: strings Basal, Her2, LumA; ``samples``, ``samples_test``,
        ``feature_names`` (dict of lists), ``DESCR``.
    """
    parts = ("samples", "subtype")
    names = [f"{view}_{kind}" for view in TCGA_VIEWS for kind in ("train", "features")]
    names += [f"{part}_{half}" for part in parts for half in ("train", "test")]
    names += [f"{view}_test" for view in TCGA_VIEWS[:2]]
    stored = read_arrays(TCGA_BREAST, names, data_dir)
    return Bunch(
        views={view: stored[f"{view}_train"] for view in TCGA_VIEWS},
        views_test={view: stored[f"{view}_test"] for view in TCGA_VIEWS[:2]},
        target=stored["subtype_train"],
        target_test=stored["subtype_test"],
        samples=stored["samples_train"],
        samples_test=stored["samples_test"],
        feature_names={
            view: stored[f"{view}_features"].tolist() for view in TCGA_VIEWS
        },
        DESCR="TCGA breast cancer subtypes, as filtered by mixOmics (DIABLO).",
    )


def _numbered(views: dict[str, np.ndarray]) -> dict[str, list[str]]:
    return {
        name: [f"{name}{j}" for j in range(view.shape[1])]
        for name, view in views.items()
    }
