"""Seven classification sets in two to five views, most of them wide and sparse."""

from dataclasses import dataclass

import scipy.sparse as sp
from sklearn.utils import Bunch

from loaders.files import read_arrays
from manykernels.datasets.download import DataFile, PathLike, readable


@dataclass(frozen=True)
class ViewSet:
    """What a file of the folder ``multiview`` holds.

    Parameters
    ----------
    views : tuple of str
        Names of its arrays ``view0``, ``view1``, ...
    is_sparse : bool
        Whether few entries differ from zero.
    description : str
    """

    views: tuple[str, ...]
    is_sparse: bool
    description: str


MULTIVIEW = {
    "citeseer": ViewSet(
        ("citations", "words"),
        True,
        "CiteSeer: 3,312 papers of 6 fields, by citations and words (0 or 1).",
    ),
    "movies": ViewSet(
        ("keywords", "actors"),
        True,
        "Movies: 617 films of 17 genres, by keywords and actors.",
    ),
    "orl": ViewSet(
        ("image0", "image1", "image2", "image3"),
        False,
        "ORL: 400 portraits of 40 people in four sets of image features.",
    ),
    "reuters1200": ViewSet(
        ("language0", "language1", "language2", "language3", "language4"),
        True,
        "Reuters: 1,200 news of 6 topics, weighted words of five languages.",
    ),
    "scene15": ViewSet(
        ("image0", "image1", "image2"),
        False,
        "Scene-15: 4,485 pictures of 15 places in three sets of image features.",
    ),
    "webkb": ViewSet(
        ("links", "words"),
        True,
        "WebKB: 1,051 web pages, courses or not, by words of links and of the page.",
    ),
    "wikipedia": ViewSet(
        ("image", "text"),
        False,
        "Wikipedia: 2,866 articles of 10 subjects, by picture and by topics.",
    ),
}


def load_multiview(name: str, data_dir: PathLike | None = None) -> Bunch:
    """Load one of seven sets of views, collected for research on several views.

    Parameters
    ----------
    name : str
        "citeseer", "movies", "orl", "reuters1200", "scene15", "webkb" or
        "wikipedia".
    data_dir : path, optional
        Folder of the data files (see `manykernels.datasets`).

    Returns
    -------
    Bunch
        ``views``: dict of float32 tables with the same rows, CSR where few entries
        differ from zero; ``target``: whole numbers as in the source;
        ``feature_names`` (dict of lists), ``DESCR``.
    """
    if name not in MULTIVIEW:
        raise ValueError(
            f"name must be one of {', '.join(MULTIVIEW)}, got {name!r}; choose one of "
            f"these."
        )
    known = MULTIVIEW[name]
    file = DataFile(f"multiview/{name}.npz")
    keys = [f"view{v}" for v in range(len(known.views))]
    stored = read_arrays(file, [*keys, "y"], data_dir)
    with readable(file.path):
        if len({array.shape[:1] for array in stored.values()}) != 1:
            raise ValueError("views and labels have different numbers of rows")
        tables = [stored[key].astype("float32") for key in keys]
    views = dict(zip(known.views, tables, strict=True))
    return Bunch(
        views={
            view: sp.csr_array(table) if known.is_sparse else table
            for view, table in views.items()
        },
        target=stored["y"].astype("int64"),
        feature_names={
            view: [f"{view}{j}" for j in range(table.shape[1])]
            for view, table in views.items()
        },
        DESCR=known.description,
    )
