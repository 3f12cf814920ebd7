"""A text to learn: tiny Shakespeare, any other file, or the topics of Python's documentation, which every Python has.

Tiny Shakespeare is looked for in --data or ISRLU_DATA (a file, or a folder that has it), then in the platform's cache,
then downloaded.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from isrlu_lab.data import download, locate
from isrlu_lab.errors import UserError

SHAKESPEARE = "tinyshakespeare"  # identity of tiny Shakespeare
FILE = "tinyshakespeare.txt"
SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
MIRRORS = ("https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",)
TOPICS = "python-topics"  # in place of a file
LEAST = 2000  # characters


@dataclass(frozen=True, eq=False)
class Text:
    """A text and its identity: "tinyshakespeare", or "topics-" or "text-" and the first digits of its SHA-256."""

    identity: str
    title: str  # what tables and plots call it
    content: str


def read(source: str | Path) -> Text:
    """The text in a file, in UTF-8, or Python's documentation topics for "python-topics"."""
    return topics() if str(source) == TOPICS else _read(Path(source))


def topics() -> Text:
    """The topics of Python's documentation that `help()` shows, in alphabetical order."""
    from pydoc_data.topics import topics as found

    content = "\n".join(found[name] for name in sorted(found))
    identity = f"topics-{_digest(content.encode())[:12]}"
    return Text(identity, title(identity), content)


def title(identity: str) -> str:
    """What tables and plots call a text of which only the identity is known.

    >>> title("text-0123456789ab")
    'text text-0123456789ab (not tiny Shakespeare)'
    """
    if identity.startswith("topics-"):
        return "Python's documentation topics (not tiny Shakespeare)"
    return "tiny Shakespeare" if identity == SHAKESPEARE else f"text {identity} (not tiny Shakespeare)"


def cache_file() -> Path:
    """Tiny Shakespeare in the platform's cache folder."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("isrlu")) / "text" / FILE


def given(where: str | Path | None = None) -> str | None:
    """The file of --data, else of ISRLU_DATA, else None. A folder without tiny Shakespeare is other data."""
    found = locate.given(where)
    if found and Path(found).is_dir():
        return str(Path(found) / FILE) if (Path(found) / FILE).is_file() else None
    return found


def at_hand(where: str | Path | None = None) -> str | None:
    """The given file, or the cache if it holds tiny Shakespeare, or None; downloads nothing."""
    cache = cache_file()
    return given(where) or (str(cache) if download.has(cache, SHA256) else None)


def find(where: str | Path | None = None, *, progress: download.Progress | None = None) -> str:
    """The file for `read`, downloaded into the cache if necessary; raises NoSource."""
    here = at_hand(where)
    if here is None:
        download.fetch_file(cache_file(), SHA256, MIRRORS, "tiny Shakespeare", progress=progress)
    return here or str(cache_file())


def find_or_topics(where: str | Path | None = None) -> tuple[str, str]:
    """As `find`, with Python's documentation topics as the last resort; also the reason for them, else ""."""
    try:
        return find(where), ""
    except download.NoSource as error:
        return TOPICS, str(error)


def _decode(path: Path, packed: bytes) -> str:
    try:
        return packed.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not a text in UTF-8 (byte {error.start}): give a text file with --data") from None


def _read(path: Path) -> Text:
    try:
        packed = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read the text {path}: {error.strerror}") from None
    digest = _digest(packed)
    if path.name == FILE and digest != SHA256:
        raise UserError(f"{path} is damaged: its SHA-256 is not that of tiny Shakespeare; fetch it again")
    content = _decode(path, packed)
    if len(content) < LEAST:
        raise UserError(f"{path} has {len(content)} characters: a text to learn has at least {LEAST:,}")
    if digest == SHA256:
        return Text(SHAKESPEARE, title(SHAKESPEARE), content)
    return Text(f"text-{digest[:12]}", f"text '{path.name}' (not tiny Shakespeare)", content)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
