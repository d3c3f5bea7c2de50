"""Add the pages of the site that are not in docs/: the README as its home, the changelog, and files that pages link to.

Pages link to files of the repository by their paths. On the site, these files have pages of their own, and this hook
changes the links: mkdocs calls `on_files` and `on_page_markdown`. It also ranks the pages for the search, because front
matter would be shown as a table where the repository is browsed.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent.parent

PLACES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "LICENSE": "license.md"}
"""The pages of files at the top of the repository."""

BOOSTS = {
    "how-to/troubleshoot": 4,
    "how-to/see-what-is-stuck": 3,
    "how-to/deploy-a-pipeline": 1,  # it names an order in every second sentence
    "how-to/": 2,
    "reference/": 0.5,
}
"""How much more, or less, a page counts in the search. The first prefix of its path decides."""

NOT_FOUND = ("contributing.md", "changelog.md")
"""Pages that the search leaves out: they have all the words, and answer no question of a user."""

_FENCED = re.compile(r"^(```.*?^```)$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(`[^`]*`)|(?:(?<=\]\()|(?<=srcset=\")|(?<=src=\"))([^)\s\"]+)(?=[)\"])")
_LANGUAGES = {
    ".json": "json",
    ".md": "markdown",
    ".py": "python",
    ".sh": "sh",
    ".tf": "hcl",
    ".toml": "toml",
    ".txt": "text",
    ".yaml": "yaml",
    ".yml": "yaml",
}
"""The languages of shown files. If a page links to a folder, files with these suffixes are shown."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that docs/ does not have."""
    for path, place in PLACES.items():
        files.append(File.generated(config, place, content=_text(path)))
    linked = {link for file in files.documentation_pages() for link in _outside(file)}
    for path in sorted({each for link in linked for each in _with_files_of(link)}):
        files.append(File.generated(config, _place(path), content=_shown(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - its hook
    """Rank a page for the search, and change its links to the places on the site."""
    boost = next((boost for prefix, boost in BOOSTS.items() if page.file.src_uri.startswith(prefix)), 1)
    page.meta.setdefault("search", {"boost": boost, "exclude": page.file.src_uri in NOT_FOUND})
    return _with_links(markdown, page.file.src_uri)


def _text(path: str) -> str:
    text = (ROOT / path).read_text(encoding="utf-8")
    return f"# Licence\n\n```text\n{text}```\n" if path == "LICENSE" else text


def _outside(file: File) -> Iterator[str]:
    """Yield the paths outside docs/ that a page links to, and that have no place yet."""
    for target in _targets(file.content_string):
        path = _path(target, file.src_uri)
        if path is not None and not path.startswith("docs/") and path not in PLACES:
            yield path


def _targets(markdown: str) -> Iterator[str]:
    for prose in _FENCED.split(markdown)[::2]:
        yield from (link[2] for link in _LINK.finditer(prose) if link[2])


def _path(target: str, uri: str) -> str | None:
    """Return the repository path that a page links to.

    None for a URL, for an anchor, and for a path that does not exist, which mkdocs reports.
    """
    if "://" in target or target.startswith(("#", "/")):
        return None
    here = {place: path for path, place in PLACES.items()}.get(uri, f"docs/{uri}")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(here), target.partition("#")[0]))
    return path if (ROOT / path).exists() and not path.startswith("..") else None


def _with_files_of(path: str) -> Iterator[str]:
    """Yield a path and, if it is a folder, the files below it."""
    yield path
    if (ROOT / path).is_dir():
        below = sorted(file for file in (ROOT / path).rglob("*.*") if file.suffix in _LANGUAGES)
        files = (file.relative_to(ROOT) for file in below)
        yield from (file.as_posix() for file in files if not any(part.startswith(".") for part in file.parts))


def _place(path: str) -> str:
    """Return the place of a repository path on the site."""
    if path in PLACES:
        return PLACES[path]
    return path.removeprefix("docs/") if path.startswith("docs/") else f"code/{path}.md"


def _shown(path: str) -> str:
    """Return a page that shows a file, or lists the files of a folder."""
    head = f"---\nsearch:\n  exclude: true\n---\n\n# `{path}`\n\n"
    if (ROOT / path).is_dir():
        names = [each.removeprefix(f"{path}/") for each in _with_files_of(path) if each != path]
        return head + "".join(f"- [{name}]({Path(path).name}/{name}.md)\n" for name in names)
    text = (ROOT / path).read_text(encoding="utf-8")
    return f"{head}````{_LANGUAGES.get(Path(path).suffix, 'text')}\n{text.rstrip()}\n````\n"


def _with_links(markdown: str, uri: str) -> str:
    def moved(link: re.Match[str]) -> str:
        path = _path(link[2], uri) if link[2] else None
        if path is None or uri.startswith("code/"):
            return link[0]
        place = posixpath.relpath(_place(path), posixpath.dirname(uri) or ".")
        _, sharp, anchor = link[2].partition("#")
        return place + sharp + anchor

    parts = _FENCED.split(markdown)
    parts[::2] = [_LINK.sub(moved, prose) for prose in parts[::2]]
    return "".join(parts)
