"""Changes to a document and its arrays that keep the file whole, checksum and all."""

import hashlib
import json

import numpy as np

from manykernels.files.container import container_parts
from tests.fuzz.mutate import mutated, one_of

# Numbers, words and forms that some field somewhere does not expect.
STRANGE = [
    *(None, True, False, 0, -1, 1, 2, 10**9, 2**62, 2**63, -(2**70), 10**400),
    *(0.0, -0.0, 0.5, 1e-300, 1e308, -1e308, float("nan"), float("inf")),
    *("", "x", "\x00", "\ud800", "os.system", "../../x", "/dev/zero", "rbf", "linear"),
    *([], {}, [[]], {"array": 0}, {"array": 99}, {"array": -1}, {"slice": [0, 9**9]}),
    *({"tuple": []}, {"dict": {}}, {"pairs": []}, {"texts": ["a", "a"]}),
    *({"dtype": "float32"}, {"dtype": "object"}, {"csr": [1, 2, 3, 4]}),
    *({"part": "Popen"}, {"part": "RBF"}, {"part": "RBF", "gamma": -1.0}),
]
PLACES = [0, -1, 1]


def packed(content, arrays) -> bytes:
    """A file with any content and a checksum that fits."""
    return b"".join(container_parts(content, arrays))


def unpacked(content: bytes):
    """The document of a file and the bytes behind it, without any check."""
    _, length, rest = content.split(b"\n", 2)
    end = int(length, 16)
    return json.loads(rest[:end]), rest[end:-32]


def forged(rng: np.random.Generator, content, arrays) -> bytes:
    """A file after a few changes to its document, its arrays or their description."""
    content, arrays = json.loads(json.dumps(content)), list(arrays)
    for _ in range(rng.geometric(0.7)):
        if arrays and rng.random() < 0.45:
            k = int(rng.integers(len(arrays)))
            arrays[k] = changed_array(rng, arrays[k])
        else:
            content = changed_document(rng, content)
    try:
        whole = packed(content, arrays)
    except (TypeError, ValueError):  # as of an array that no file describes
        return packed(content, [])
    return with_odd_header(rng, whole) if rng.random() < 0.15 else whole


def with_odd_header(rng, whole: bytes) -> bytes:
    """Other descriptions of arrays, lengths or bytes; only the checksum fits."""
    document, payload = unpacked(whole)
    choice = rng.integers(4)
    if choice == 0 and document["arrays"]:
        item = one_of(rng, document["arrays"])
        key = one_of(rng, list(item))
        item[key] = one_of(rng, [*STRANGE, "<f4", "<i8", "<U3", "|b1", [3], [2, -3]])
    elif choice == 1:
        document["arrays"] = changed_document(rng, document["arrays"])
    elif choice == 2:
        payload = mutated(rng, payload)
    text = json.dumps(document).encode()
    length = len(text) if choice < 3 else int(rng.integers(2 * len(whole)))
    body = b"manykernels 3\n%016x\n" % length + text + payload
    return body + hashlib.sha256(body).digest()


def nodes(value, path=()):
    """Paths of everything in a document."""
    if not isinstance(value, dict | list):
        return
    items = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    for key, item in items:
        yield (*path, key)
        yield from nodes(item, (*path, key))


def changed_document(rng, content):
    """One change: another value, or parts that go, come twice or change places."""
    paths = list(nodes(content))
    if not paths:
        return one_of(rng, STRANGE)
    holder, key = _place(content, one_of(rng, paths))
    value = holder[key]
    choice = rng.integers(8)
    if choice == 0:
        del holder[key]
    elif choice == 1:
        holder[key] = [value, value]
    elif choice == 2:
        other, place = _place(content, one_of(rng, paths))
        holder[key], other[place] = json.loads(json.dumps([other[place], value]))
    elif choice == 3 and isinstance(value, list) and value:
        holder[key] = value * 2 if rng.random() < 0.5 else value[:-1]
    elif isinstance(value, int | float) and rng.random() < 0.6:
        holder[key] = one_of(rng, [-value, value + 1, value * 1000, value / 3, 0, 1])
    elif isinstance(value, str) and rng.random() < 0.4:
        raw = mutated(rng, value.encode("utf-8", "surrogatepass"))
        holder[key] = raw.decode("utf-8", "replace")
    else:
        holder[key] = one_of(rng, STRANGE)
    return content


def _place(content, path):
    for key in path[:-1]:
        content = content[key]
    return content, path[-1]


def changed_array(rng, array):
    """One change of values, of the shape or of the type."""
    with np.errstate(all="ignore"):
        return np.asarray(one_of(rng, ARRAY_CHANGES)(rng, array))


def _one_entry(rng, array):
    if not array.size or array.dtype.kind not in "biuf":
        return array[::-1]
    changed = array.copy()
    flat = changed.reshape(-1) if changed.flags.c_contiguous else changed.ravel("K")
    whole = [0, 1, -1, 2, len(array), array.size, 2**31 - 1, -(2**31)]
    odd = [*whole, np.nan, np.inf, -np.inf, 1e308, -1e-3, 0.5, 1e-320]
    value = one_of(rng, odd if array.dtype.kind == "f" else whole)
    flat[rng.integers(flat.size)] = np.array(value).astype(array.dtype)
    return flat.reshape(array.shape)


def _other_type(rng, array):
    types = [np.float32, np.float64, np.int32, np.int64, np.uint8, bool, "<U5"]
    try:
        return array.astype(one_of(rng, types))
    except ValueError:  # words are no numbers
        return array[::-1]


ARRAY_CHANGES = [
    _one_entry,
    _one_entry,
    _one_entry,
    _other_type,
    lambda rng, a: a[:-1] if a.ndim else a,
    lambda rng, a: np.concatenate([a, a[-1:]]) if a.ndim else a,
    lambda rng, a: a[..., :-1] if a.ndim else a,
    lambda rng, a: a[:0] if a.ndim else a,
    lambda rng, a: a[..., None],
    lambda rng, a: a.ravel(),
    lambda rng, a: np.ascontiguousarray(a.T),
    lambda rng, a: np.asfortranarray(a),
    lambda rng, a: -a if a.dtype.kind in "if" else a[::-1],
    lambda rng, a: a[::-1] if a.ndim else a,
    lambda rng, a: rng.permutation(a) if a.ndim else a,
    # Bytes hold no 1000: they wrap around.
    lambda rng, a: a * np.array(1000).astype(a.dtype) if a.dtype.kind in "iuf" else a,
    lambda rng, a: np.zeros(a.shape, a.dtype),
    lambda rng, a: np.full(a.shape, np.nan if a.dtype.kind == "f" else 1, a.dtype),
    lambda rng, a: np.zeros((0, 10**6)),
]
