"""Hooks of mkdocs.yml: API pages, pages outside its nav, the shipped report; a check that no public name is missing.

One page per public module of isrlu is generated, so a new module needs no change here. The build fails if a public name
has no docstring, or is missing on its page.
"""

import pkgutil
import re
import sys
from pathlib import Path
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

import isrlu

SOURCE = Path(isrlu.__file__).parent
COMPILED = ("_core", "numpy")
"""Modules whose functions exist only after an import: they are inspected, all others are read."""


class InspectCompiled(griffe.Extension):
    """Replace the modules in COMPILED by what an import finds in them, and put doctests into code blocks."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        if pkg.path == "isrlu":
            for name in COMPILED:
                path = next(SOURCE.glob(f"{name}.*py" if name == "numpy" else f"{name}.*"), None)
                found = griffe.inspect(name, filepath=path, parent=pkg, import_paths=[Path(each) for each in sys.path])
                pkg.set_member(name, found)
            _fence_doctests(pkg)


def _fence_doctests(found: griffe.Object) -> None:
    """Put the doctests of all docstrings into code blocks: Markdown takes ">>>" for a quotation."""
    if found.docstring:
        found.docstring.value = re.sub(
            r"^>>> .*?(?=\n\n|\Z)", r"```pycon\n\g<0>\n```", found.docstring.value, flags=re.DOTALL | re.MULTILINE
        )
    for member in found.members.values():
        if not member.is_alias:
            _fence_doctests(member)


def modules() -> list[str]:
    """The package and its public modules."""
    found = (each.name for each in pkgutil.iter_modules([str(SOURCE)]))
    return ["isrlu", *(f"isrlu.{name}" for name in sorted(found) if not name.startswith("_"))]


def page(module: str) -> str:
    return f"api/{module.rpartition('.')[2]}.md"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    assert config.nav is not None
    docs = Path(config.docs_dir)
    others = sorted({path.name for path in docs.glob("*.md")} - set(re.findall(r"'([\w-]+\.md)'", str(config.nav))))
    if others:
        config.nav.append({"More": others})
    config.nav.append({"API reference": [{module: page(module)} for module in modules()]})
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Pages may link to what only the repository has, sources and folders of results: keep the text of such a link."""
    sources = r"(?:\.\./)+(?:core|src|examples|scripts|tests|README|CONTRIBUTING)[^)]*"
    results = r"(?:\.\./)*results/[\w-]+(?:/\w+\.json)?"
    return re.sub(rf"\[([^\]]+)\]\((?:{sources}|{results})\)", r"\1", markdown)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    from isrlu_lab.report import build

    for module in modules():
        members = f"\n    options:\n      members: {public_names(module)}" if module == "isrlu" else ""
        content = f"# {module}\n\n::: {module}{members}\n"
        files.append(File.generated(config, page(module), content=content))
    report = build.render(build.shipped_sections())
    files.append(File.generated(config, "report/shipped.html", content=report))
    return files


def on_post_build(config: MkDocsConfig) -> None:
    """Every public name has an entry, with text, on the page of its module."""
    missing = []
    for module in modules():
        html = Path(config.site_dir, page(module)).with_suffix("").joinpath("index.html").read_text(encoding="utf-8")
        for name in public_names(module):
            entry = re.search(rf'id="{re.escape(module)}\.{name}"(.*?)(?=<h2 id=|</article>)', html, re.DOTALL)
            if not entry or not re.search(r"<p>\s*\S", entry[1]):
                missing.append(f"{module}.{name}")
    if missing:
        raise PluginError(f"without a docstring, or not in the API reference: {', '.join(missing)}")


def public_names(module: str) -> list[str]:
    """`__all__` of the module, read from its source."""
    path = SOURCE.joinpath(*module.split(".")[1:])
    source = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8")
    listed = re.search(r"^__all__ = \[(.*?)\]", source, re.DOTALL | re.MULTILINE)
    if listed is None:
        raise PluginError(f"{module} has no __all__")
    return re.findall(r'"(\w+)"', listed[1])
