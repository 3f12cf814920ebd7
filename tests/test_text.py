"""Texts to learn: tiny Shakespeare known by its checksum, downloaded or not, other files, Python's topics."""

import gzip
import hashlib
from pathlib import Path

import pytest
import torch
from test_data import Answer, cut, mirror, missing, other, whole

from isrlu_lab import data
from isrlu_lab.data import data_command, text
from isrlu_lab.errors import UserError
from isrlu_lab.training.tensors import as_tensors
from isrlu_lab.training.text_tensors import TextTensors

POEM = ("To be, or not to be: that is the question.\n" * 60).encode()


@pytest.fixture
def poem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A short text whose checksum is taken for tiny Shakespeare's, and an empty cache."""
    monkeypatch.setattr(text, "SHA256", hashlib.sha256(POEM).hexdigest())
    monkeypatch.setattr(text, "cache_file", lambda: tmp_path / "cache" / text.FILE)
    monkeypatch.setattr(text, "MIRRORS", ())
    monkeypatch.delenv("ISRLU_DATA", raising=False)
    return POEM


def test_a_file_is_read_and_known_by_its_checksum(tmp_path: Path, poem: bytes) -> None:
    path = tmp_path / "poem.txt"
    path.write_bytes(poem)
    assert (text.read(path).identity, text.read(path).title) == ("tinyshakespeare", "tiny Shakespeare")
    path.write_bytes(poem + b"!")
    assert text.read(path).identity.startswith("text-") and text.read(path).content == poem.decode() + "!"
    assert text.read(path).title == "text 'poem.txt' (not tiny Shakespeare)"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("gone.txt", None, "cannot read the text .*gone.txt: No such file"),
        ("short.txt", b"To be", "short.txt has 5 characters: a text to learn has at least 2,000"),
        ("picture.png", b"\x89PNG" * 1000, r"picture.png is not a text in UTF-8 \(byte 0\): give a text file"),
        (text.FILE, b"To be " * 1000, f"{text.FILE} is damaged: its SHA-256 is not that of tiny Shakespeare"),
    ],
)
def test_a_bad_file_is_one_line(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        text.read(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_without_a_source_it_is_pythons_topics_and_says_so(poem: bytes) -> None:
    source, reason = data.TEXTS.find(None)
    assert source == "python-topics" and reason.startswith("cannot fetch tiny Shakespeare")
    found = data.load_any(source)
    assert isinstance(found, data.Text) and len(found.content) > 300_000 and "assert" in found.content
    assert found.title == data.TEXTS.title(found.identity) == "Python's documentation topics (not tiny Shakespeare)"


def test_the_order_of_sources(tmp_path: Path, poem: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    option, variable = tmp_path / "option.txt", tmp_path / "folder"
    for path in (option, variable / text.FILE):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(poem)
    monkeypatch.setenv("ISRLU_DATA", str(variable))
    assert text.find(option) == str(option) and text.find() == str(variable / text.FILE)
    (variable / text.FILE).unlink()
    assert text.given() is None, "a folder of images is not meant for a text"
    assert text.given("digits") is None
    text.cache_file().parent.mkdir()
    text.cache_file().write_bytes(poem)
    assert text.find() == str(text.cache_file())
    text.cache_file().write_bytes(b"rotten")
    with pytest.raises(UserError, match="cannot fetch tiny Shakespeare"):
        text.find()  # a damaged cache is fetched anew, never used


def test_download(poem: bytes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with mirror({"input.txt": poem}, lambda handler, packed: whole(handler, gzip.decompress(packed))) as url:
        monkeypatch.setattr(text, "MIRRORS", (f"{url}input.txt.gz",))
        data_command.show("tinyshakespeare", None)
    said = capsys.readouterr().out.replace("\n", "")
    assert said.startswith("tiny Shakespeare in ") and "2,580 characters" in said
    assert text.cache_file().read_bytes() == poem


@pytest.mark.parametrize(
    ("answer", "reason"), [(missing, "HTTP 404"), (other, "wrong SHA-256"), (cut, "wrong SHA-256")]
)
def test_a_damaged_download_is_one_line(
    poem: bytes, monkeypatch: pytest.MonkeyPatch, answer: Answer, reason: str
) -> None:
    with mirror({"input.txt": poem}, answer) as url:
        monkeypatch.setattr(text, "MIRRORS", (f"{url}input.txt.gz",))
        with pytest.raises(UserError, match=f"cannot fetch tiny Shakespeare .*{reason}.*: give a file") as caught:
            text.find()
    assert "\n" not in str(caught.value) and not text.cache_file().exists()


def test_an_unknown_data_set_names_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"unknown data set 'hamlet': known are .*tinyshakespeare"):
        data_command.show("hamlet", None)


def test_tensors() -> None:
    content = "".join(chr(ord("a") + n % 7) for n in range(3000)) + "ä€𝄞"
    found = as_tensors(data.Text("text-x", "x", content))
    assert isinstance(found, TextTensors)
    assert found.alphabet == "abcdefgä€𝄞" and found.characters == 10
    assert len(found.train) == 2702 and len(found.validation) == 301
    assert found.decode(torch.cat([found.train, found.validation])) == content
    windows = found.validation_windows(50)
    assert windows.shape == (6, 51) and torch.equal(windows[0, -1:], windows[1, :1]), "each character is predicted once"
    assert torch.equal(found.validation_windows(50, 3), windows[[0, 2, 4]])
    batches = list(found.training_batches(8, 4, 5, torch.Generator().manual_seed(0)))
    assert len(batches) == 5 and batches[0].shape == (4, 9)
    assert all(found.decode(window) in content for window in batches[0])
