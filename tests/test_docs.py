"""The documentation: every Python block runs, the site builds without a warning and loads nothing from elsewhere."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    path for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if "```python" in path.read_text()
]
NEEDED = ("torch", "jax", "flax", "keras", "onnx", "onnxruntime", "onnxscript", "transformers")


def blocks(text: str) -> str:
    """The page as a program: its Python blocks at their own lines, so that an error names the page's line."""
    inside, lines = False, []
    for line in text.splitlines():
        if line.startswith("```"):
            inside = line == "```python"
            line = ""
        lines.append(line if inside else "")
    return "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    """All blocks of a page in one process, in their order."""
    for package in NEEDED:
        if re.search(rf"\b{package}\b", blocks(page.read_text())):
            pytest.importorskip(package)
    program = tmp_path / f"page_{page.stem}.py"  # "torch.py" would hide torch
    program.write_text(blocks(page.read_text()))
    environment = os.environ | {"KERAS_BACKEND": "jax", "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, str(program)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_program_is_the_pages_python_alone() -> None:
    text = "# Title\n```python\na = 1\n```\ntext\n```\nshell\n```\n```python\nb = a + 1\n```"
    assert blocks(text).split() == ["a", "=", "1", "b", "=", "a", "+", "1"]
    assert blocks(text).splitlines()[9] == "b = a + 1"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings_handlers.python")
    folder = tmp_path_factory.mktemp("site")
    environment = os.environ | {"PYTHON": sys.executable}
    done = subprocess.run([ROOT / "scripts" / "docs", folder], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_the_site_builds_without_a_warning(site: Path) -> None:
    for name in ("index.html", "start/index.html", "how-to/cluster/index.html", "inside/index.html"):
        assert (site / name).stat().st_size > 5000
    torch = (site / "api/torch/index.html").read_text()
    assert 'id="isrlu.torch.ISRLU"' in torch and "&gt;&gt;&gt; " in torch and "<blockquote>" not in torch
    assert "The ISRLU paper, reproduced" in (site / "report/shipped.html").read_text()


@pytest.mark.slow
def test_every_link_inside_the_site_leads_somewhere(site: Path) -> None:
    for page in set(site.rglob("*.html")) - {site / "404.html"}:
        for link in re.findall(r"""<[^>]*\s(?:href|src)=["']?([^"'#?>\s]+)""", page.read_text()):
            assert re.match(r"\w+:|//", link) or (page.parent / unquote(link)).exists(), (page, link)


@pytest.mark.slow
def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    """Links may lead elsewhere; what a browser loads by itself may not."""
    loaded = (
        r"""<(?:script|img|iframe|source|video)[^>]*\ssrc=["']?(?:https?:)?//|<link[^>]*\shref=["']?(?:https?:)?//"""
    )
    for page in site.rglob("*.html"):
        found = [each for each in re.findall(loaded + r"""[^>]*>""", page.read_text()) if 'rel="canonical"' not in each]
        assert not found, (page, found)
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", sheet.read_text()), sheet


@pytest.fixture
def hooks() -> ModuleType:
    pytest.importorskip("mkdocs")
    pytest.importorskip("griffe")
    spec = importlib.util.spec_from_file_location("docs_hooks", ROOT / "scripts" / "docs_hooks.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("entry", ['<h2 id="isrlu.simd_available"></h2>', "<p>about isrlu.simd_available</p>"])
def test_the_build_fails_for_a_name_without_text(
    hooks: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    from mkdocs.exceptions import PluginError

    monkeypatch.setattr(hooks, "modules", lambda: ["isrlu"])
    page = tmp_path / "api" / "isrlu" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text(f'<article><h2 id="isrlu.simd"></h2><p>Text.</p>{entry}</article>')
    with pytest.raises(PluginError, match=r"not in the API reference: isrlu\.simd_available$"):
        hooks.on_post_build(SimpleNamespace(site_dir=str(tmp_path)))


def test_every_public_module_has_a_page(hooks: ModuleType) -> None:
    assert {"isrlu", "isrlu.numpy", "isrlu.torch", "isrlu.jax", "isrlu.flax", "isrlu.keras"} <= set(hooks.modules())
    assert "ISRLU" in hooks.public_names("isrlu.torch")
