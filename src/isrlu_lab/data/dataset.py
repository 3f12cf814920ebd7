"""A data set: read from a folder of IDX files, or made from scikit-learn's digits."""

import functools
import gzip
import hashlib
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from isrlu_lab.errors import UserError

# SHA-256 of MNIST's files, unpacked.
MNIST = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images as uint8 [n, 28, 28], labels as uint8 [n], each for training and for testing."""

    identity: str  # "mnist", "digits", or "idx-" and the first digits of its SHA-256: a run's result depends on it
    title: str  # what tables and plots call it
    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray

    @property
    def is_mnist(self) -> bool:
        return self.identity == "mnist"


def read_folder(folder: Path) -> Dataset:
    """The data set whose four IDX files, gzipped or not, are in `folder`. A process reads unchanged files once.

    The SHA-256 of each file, packed and unpacked, is compared with the folder's SHA256SUMS if there is one; the
    unpacked ones decide whether this is MNIST.
    """
    if not folder.is_dir():
        raise UserError(f"no such data folder: {folder}")
    paths = {name: _locate(folder, name) for name in MNIST}
    stats = [path.stat() for path in paths.values()]
    versions = tuple((each.st_size, each.st_mtime_ns, each.st_ino) for each in stats)
    return _read(folder, tuple(paths.items()), versions, tuple(_sums_beside(folder).items()))


@functools.lru_cache(maxsize=1)
def _read(
    folder: Path, paths: tuple[tuple[str, Path], ...], versions: object, expected: tuple[tuple[str, str], ...]
) -> Dataset:
    """Read and check the files; `versions` stands for their content in the cache's key."""
    sums, arrays = {}, []
    for name, path in paths:
        packed = _bytes(path)
        content = _unpack(packed, path)
        sums[name] = hashlib.sha256(content).hexdigest()
        packed_sum = sums[name] if packed is content else hashlib.sha256(packed).hexdigest()
        for known, digest in ((name, sums[name]), (path.name, packed_sum)):
            if digest != dict(expected).get(known, digest):
                raise UserError(f"{path} is damaged: its SHA-256 is not the one in SHA256SUMS; fetch it again")
        arrays.append(parse_idx(content, str(path)))
    if sums == MNIST:
        return Dataset("mnist", title("mnist"), *arrays)
    identity = hashlib.sha256("".join(sums.values()).encode()).hexdigest()[:12]
    return _checked(Dataset(f"idx-{identity}", f"IDX data '{folder.resolve().name}' (not MNIST)", *arrays), folder)


def digits() -> Dataset:
    """The 1,797 digits of 8x8 pixels that scikit-learn includes, scaled to 28x28."""
    from scipy.ndimage import zoom
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    scaled = zoom(images.reshape(-1, 8, 8) * (255 / 16), (1, 3.5, 3.5), order=1)
    order = np.random.default_rng(0).permutation(len(labels))
    images, labels = scaled.round().astype(np.uint8)[order], labels.astype(np.uint8)[order]
    return Dataset("digits", title("digits"), images[:1500], labels[:1500], images[1500:], labels[1500:])


def title(identity: str) -> str:
    """What tables and plots call a data set of which only the identity is known.

    >>> title("idx-0123456789ab")
    'IDX data idx-0123456789ab (not MNIST)'
    """
    known = {"mnist": "MNIST", "digits": "scikit-learn digits scaled to 28x28 (not MNIST)"}
    return known.get(identity, f"IDX data {identity} (not MNIST)")


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None


def _unpack(content: bytes, path: Path) -> bytes:
    """Gzipped content unpacked, other content as it is."""
    try:
        return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise UserError(f"{path} is truncated or damaged: fetch it again") from None


def parse_idx(content: bytes, name: str) -> np.ndarray:
    """An IDX file's array: 0, 0, 8 (unsigned bytes), number of dimensions, each size as big-endian int32, the bytes.

    >>> parse_idx(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]), "labels")
    array([7, 9], dtype=uint8)
    """
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise UserError(f"{name} is not an IDX file of unsigned bytes")
    start = 4 + 4 * content[3]
    if len(content) < start or start == 4:
        raise UserError(f"{name} is truncated or damaged: it ends within its header; fetch it again")
    shape = np.frombuffer(content[4:start], ">i4")
    expected = int(np.prod(shape, dtype=np.int64))
    if len(content) - start != expected or shape.min() < 0:
        raise UserError(f"{name} is truncated or damaged: {len(content) - start} of {expected} bytes; fetch it again")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _locate(folder: Path, name: str) -> Path:
    for candidate in (name, f"{name}.gz", name.replace("-idx", ".idx"), f"{name.replace('-idx', '.idx')}.gz"):
        if (folder / candidate).is_file():
            return folder / candidate
    raise UserError(f"{folder} has no {name} or {name}.gz: a data folder has {', '.join(MNIST)}")


def _sums_beside(folder: Path) -> dict[str, str]:
    """name -> SHA-256 from the folder's SHA256SUMS, as the sha256sum tool writes it."""
    path = folder / "SHA256SUMS"
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    pairs = (line.split(maxsplit=1) for line in lines)
    return {pair[1].lstrip("*"): pair[0].lower() for pair in pairs if len(pair) == 2}


def _checked(data: Dataset, folder: Path) -> Dataset:
    for images, labels in ((data.train_images, data.train_labels), (data.test_images, data.test_labels)):
        if images.shape[1:] != (28, 28):
            raise UserError(f"{folder}: images of shape {images.shape[1:]}, but the networks take (28, 28)")
        if len(images) != len(labels) or not len(images):
            raise UserError(f"{folder}: {len(images)} images but {len(labels)} labels")
        if labels.ndim != 1 or labels.max() > 9:
            raise UserError(f"{folder}: labels up to {labels.max()}, but the networks have 10 classes, 0 to 9")
    return data
