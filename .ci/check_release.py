"""Refuse a release if tag, repository and changelog do not match: python .ci/check_release.py v0.9.0 https://..."""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def problems(tag: str, repository: str) -> list[str]:
    """Return why a release with this tag from this repository is refused."""
    version = re.search(r'^__version__ = "(.+)"$', _text("pynamodb_tracker/__init__.py"), re.MULTILINE)
    source = tomllib.loads(_text("pyproject.toml"))["project"]["urls"]["Source"]
    found = []
    if not version or tag != f"v{version[1]}":
        found.append(f"the tag is {tag}, and __version__ is {version and version[1]}")
    if repository != source:
        found.append(f"the repository is {repository}, and the links of the package lead to {source}")
    if not re.search(rf"^## \[{re.escape(tag[1:])}\] - \d{{4}}-\d\d-\d\d$", _text("CHANGELOG.md"), re.MULTILINE):
        found.append(f"CHANGELOG.md has no section [{tag[1:]}] with a date")
    if 'INSTALLABLE = "pynamodb-tracker"\n' not in _text("pynamodb_tracker/exceptions.py"):
        found.append('INSTALLABLE in exceptions.py is not "pynamodb-tracker" yet')
    return found


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


if __name__ == "__main__":
    for problem in (found := problems(*sys.argv[1:])):
        print(problem, file=sys.stderr)  # noqa: T201 - the result of this command
    sys.exit(bool(found))
