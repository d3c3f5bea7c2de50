"""The documentation site: it builds strictly, asks no other host for anything, and has every public name."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from mike import commands as mike
from typer.testing import CliRunner

from pynamodb_tracker import TrackerError, __version__
from pynamodb_tracker.cli import app
from pynamodb_tracker.exceptions import address_of
from tests.support.pages import ROOT
from tests.support.reference import OBJECTS, public_members

CONFIG = ROOT / ".mkdocs.yml"
PLACES = ("", "apscheduler.", "aws_lambda.", "instrumentation.", "opentelemetry.", "testing.", "web.")
"""Where public names are."""
BUILD = """
import logging, sys
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort
config, docs, site = sys.argv[1:]
logging.basicConfig(level=logging.WARNING)
try:
    build(load_config(config, docs_dir=docs, site_dir=site, strict=True))
except Abort as error:
    sys.exit(str(error))
"""


def built(docs: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BUILD, str(CONFIG), str(docs), str(site)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own


class Found(HTMLParser):
    """What a page of the site is made of: its ids, its links, and what a browser fetches to show it."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.classes: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given["id"]} if "id" in given else set()
        self.classes |= set(given.get("class", "").split())
        if tag == "a":
            self.links += [given["href"]] if "href" in given else []
        else:
            self.fetched += [given[name] for name in ("src", "srcset", "href", "data", "poster") if name in given]
            self.fetched += re.findall(r"url\(([^)]*)\)", given.get("style", ""))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site once, unless `make docs` has built it: then SITE names its folder."""
    if given := os.environ.get("SITE"):
        return Path(given).absolute()
    site = tmp_path_factory.mktemp("site")
    build = built(ROOT / "docs", site)
    assert build.returncode == 0, build.stderr
    return site


@cache
def found(page: Path) -> Found:
    return Found(page)


def pages(site: Path) -> list[Path]:
    return sorted(page for page in site.rglob("*.html") if page.name != "404.html")  # which has links from the root


def moved(site: Path) -> set[Path]:
    return {page for page in pages(site) if 'http-equiv="refresh"' in page.read_text(encoding="utf-8")}


def test_every_page_of_the_repository_is_on_the_site(site: Path) -> None:
    docs = ROOT / "docs"
    expected = {page.relative_to(docs).with_suffix(".html") for page in docs.rglob("*.md")}
    expected |= {Path("index.html"), Path("changelog.html"), Path("license.html")}
    assert expected <= {page.relative_to(site) for page in pages(site)}


def test_no_script_of_the_pictures_is_on_the_site(site: Path) -> None:
    assert not list(site.rglob("*.py"))
    assert (site / "images" / "states.svg").exists()


def test_a_browser_asks_no_other_host(site: Path) -> None:
    for page in [*pages(site), site / "404.html"]:
        assert not [address for address in found(page).fetched if re.match(r"(\w+:)?//", address)], page
    for sheet in site.rglob("*.css"):
        assert not re.findall(r"(?:url\(|@import)[\"' ]*(?:\w+:)?//[^)\"']*", sheet.read_text(encoding="utf-8")), sheet


def test_the_search_works_without_a_server(site: Path) -> None:
    assert (site / "search" / "search_index.js").read_text(encoding="utf-8").startswith("var __index = {")
    for page in set(pages(site)) - moved(site):
        assert any(address.endswith("site/iframe-worker.js") for address in found(page).fetched), page


SEARCHED = {
    "moto": "test-your-code",
    "run a worker": "run-a-worker",
    "stuck": "see-what-is-stuck",
    "retry failed": "retry-and-reopen",
    "cancel order": "cancel-and-refund",
    "concurrency limit": "limit-what-runs-at-once",
    "cron": "repeat-a-task",
    "dashboard": "watch-in-a-browser",
    "docker": "run-a-worker",
    "fastapi": "use-asyncio",
    "heartbeat": "long-runs",
    "how do I rename a step": "deploy-a-new-version",
    "idempotency": "exactly-once",
    "kubernetes": "run-a-worker",
    "lambda": "lambda",
    "late payment": "wait-for-a-signal",
    "message delivered twice": "troubleshoot",
    "money": "store-and-find-data",
    "order hangs": "see-what-is-stuck",
    "permissions": "deploy-the-table",
    "refund": "cancel-and-refund",
    "restore backup": "recover-after-a-restore",
    "sqs": "process-sqs-batches",
    "task does not start": "troubleshoot",
    "test with several processes": "develop-locally",
    "webhook": "wait-for-a-signal",
}
"""What people search for, and the guide that they have to find first."""


def test_the_search_finds_the_guide_for_a_job_first(site: Path, node: str) -> None:
    command = [node, str(ROOT / "tests" / "support" / "search.mjs"), str(site), *SEARCHED]
    run = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    assert run.returncode == 0, run.stderr
    results = dict(zip(SEARCHED, json.loads(run.stdout), strict=True))
    first = {query: locations[0] if locations else "nothing" for query, locations in results.items()}
    assert first == {query: f"how-to/{page}.html" for query, page in SEARCHED.items()}


def test_the_search_leaves_out_what_answers_no_question(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert not {location for location in found if location.startswith(("code/", "contributing", "changelog"))}
    assert len(found) > 40


@pytest.fixture
def deployed(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Deploy the site as a release does, and return the folder that the host of the site would serve."""
    release = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    [aliases] = re.findall(r'mike deploy .*--update-aliases "\$\{version%\.\*\}" (.+)', release)
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "test")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "test@example.com")
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "--quiet"], check=True)  # noqa: S607 - git of the path
    version, config = __version__.rpartition(".")[0], {"site_dir": str(site), "use_directory_urls": False}
    with mike.deploy(config, version, aliases=aliases.split(), update_aliases=True, branch="site", message="deploy"):
        pass  # it is built already
    subprocess.run(["git", "checkout", "--quiet", "site"], check=True)  # noqa: S607 - the same
    return tmp_path


def test_the_address_in_each_error_leads_to_a_part_of_the_site_as_it_is_deployed(deployed: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    errors = [each for each in OBJECTS.values() if isinstance(each, type) and issubclass(each, TrackerError)]
    addresses = {address_of(error).removeprefix("See ") for error in errors if error.entry}
    assert len(addresses) > 4
    for address in addresses:
        path, _, anchor = address.removeprefix(project["urls"]["Documentation"]).partition("#")
        page = deployed / path
        assert page.is_file(), address
        assert anchor in found(page.resolve()).ids, address


def test_the_address_of_a_page_that_has_gone_leads_to_the_page_that_has_its_text(site: Path) -> None:
    for page in moved(site):
        [link] = found(page).links  # and it leads somewhere, as all links do
        assert f'content="0; url={link}"' in page.read_text(encoding="utf-8")
    assert {site / "how-to" / "upgrade.html", site / "explanation" / "why-not.html"} <= moved(site)
    assert len(moved(site)) > 30


def test_nothing_is_left_to_a_script_that_the_theme_would_fetch(site: Path) -> None:
    assert not [page for page in pages(site) if "mermaid" in found(page).classes]


def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    linked = [(page, link) for page in pages(site) for link in found(page).links if "://" not in link]
    assert len(linked) > 1000
    for page, link in linked:
        path, _, anchor = link.partition("#")
        target = (page.parent / unquote(path)).resolve() if path else page
        assert target.is_relative_to(site), (page, link)
        assert target.is_file(), (page, link)
        assert not anchor or unquote(anchor) in found(target).ids, (page, link)


def test_every_picture_of_the_site_is_there(site: Path) -> None:
    fetched = [(page, address) for page in pages(site) for address in found(page).fetched if "images/" in address]
    assert len(fetched) > 10
    assert not [(page, address) for page, address in fetched if not (page.parent / address).is_file()]


def test_each_broken_link_and_each_unlisted_page_fails_the_build(tmp_path: Path) -> None:
    complaints = {
        "[x](nothing.md)": "'nothing.md', but the target",
        "[x](table.md#nothing)": "'explanation/table.md' does not contain an anchor '#nothing'",
        "[x](../../README.md#nothing)": "'index.md' does not contain an anchor '#nothing'",
        "[x](../../tests/nothing.py)": "'../../tests/nothing.py', but the target",
        "[x](/explanation/table.md)": "an absolute link '/explanation/table.md'",
    }
    docs = small_docs(tmp_path)
    with (docs / "explanation" / "lock.md").open("a", encoding="utf-8") as page:
        page.write("\n" + "\n".join(complaints))
    (docs / "how-to" / "unlisted.md").write_text("# Unlisted\n")
    build = built(docs, tmp_path / "site")
    for complaint in [*complaints.values(), "how-to/unlisted.md"]:
        assert complaint in build.stderr
    assert build.stderr.endswith(f"Aborted with {len(complaints) + 1} warnings in strict mode!\n")


def test_a_diagram_that_cannot_be_drawn_fails_the_build(tmp_path: Path) -> None:
    docs = small_docs(tmp_path)
    with (docs / "explanation" / "lock.md").open("a", encoding="utf-8") as page:
        page.write("\n```mermaid\nflowchart LR\n```\n")
    build = built(docs, tmp_path / "site")
    assert build.returncode != 0
    assert "explanation/lock.md: only sequence diagrams of Mermaid are drawn here, not 'flowchart LR'" in build.stderr


def small_docs(tmp_path: Path) -> Path:
    """Copy the pages without the docstrings, which take most of the time."""
    docs = Path(shutil.copytree(ROOT / "docs", tmp_path / "docs"))
    for page in (docs / "reference").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        page.write_text(re.sub(r"^:::.*\n(?:    .*\n)*", "", text, flags=re.MULTILINE), encoding="utf-8")
    return docs


def test_every_public_name_has_its_docstring_on_the_site(site: Path) -> None:
    ids = {each for page in (site / "reference").glob("*.html") for each in found(page).ids}
    for name in OBJECTS:
        assert ids & {f"pynamodb_tracker.{place}{name}" for place in PLACES}, name


@pytest.mark.parametrize(
    "name",
    [
        "AsyncWorker",
        "BoundStep",
        "ExecutionContext",
        "Failure",
        "TaskPage",
        "Replies",
        "Report",
        "State",
        "StoppedClock",
        "Tally",
        "Task",
        "Worker",
    ],
)
def test_the_site_has_every_public_member(site: Path, name: str) -> None:
    ids = {each for page in (site / "reference").glob("*.html") for each in found(page).ids}
    shown = {match[1] for each in ids if (match := re.fullmatch(rf"pynamodb_tracker\.(?:\w+\.)?{name}\.(\w+)", each))}
    attributes = set(OBJECTS["Task"].get_attributes()) if name == "Task" else set()  # described with the table
    namesakes = {f"a{member}" for member in shown}  # described once, for all
    assert public_members(OBJECTS[name]) - attributes - namesakes <= shown


def test_the_reference_shows_values_that_a_reader_could_write_and_none_that_is_computed(site: Path) -> None:
    pages = [re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")) for page in (site / "reference").glob("*.html")]
    assert [found for text in pages for found in re.findall(r"= (?:definition\.|awaited\().*", text)] == []
    assert [text for text in pages if "PENDING = 'pending'" in text] != []


def test_the_commands_are_described_as_in_their_help(site: Path) -> None:
    page = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    sections = dict(re.findall(r'<h2 id="([\w-]+)">(.*?)(?=<h2|</article>)', page, re.DOTALL))
    for name, options, required in helped():
        told = set(re.findall(r"<code>(--[\w-]+)", sections[name]))
        assert told == options - {"--app", "--use-case", "--help"}, name
        told = set(re.findall(r"<code>(--[\w-]+)(?:(?!<tr>).)*Required\.", sections[name], re.DOTALL))
        assert told == required - {"--app"}, name
    assert len(sections) == len(list(helped()))


def helped() -> Iterator[tuple[str, set[str], set[str]]]:
    """Yield each command, the options that its help has, and the required ones."""
    runner, wide = CliRunner(), {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    names = re.findall(r"^│ ([a-z][a-z-]*) {2,}", runner.invoke(app, ["--help"], env=wide).stdout, re.MULTILINE)
    for name in names:
        out = runner.invoke(app, [name, "--help"], env=wide).stdout
        required = set(re.findall(r"^│(?: \*|(?=.*Required\.)) +(--[\w-]+)", out, re.MULTILINE))
        yield name, set(re.findall(r"^│[ *]+(--[\w-]+)", out, re.MULTILINE)), required


DIAGRAM = """\
sequenceDiagram
    participant A as worker A
    participant row
    A->>row: claim, if a < b
    Note over row: in_progress,<br/>fence 1
    row--xA: lost
    alt it is there
        A->>row: read
    else it is not
        Note over A,row: nobody knows
    end
"""


@pytest.fixture(scope="module")
def drawing() -> Callable[[str], str]:
    drawing: Callable[[str], str] = runpy.run_path(str(ROOT / "docs" / "site" / "diagrams.py"))["drawing"]
    return drawing


def test_a_diagram_is_drawn_with_all_that_it_says(drawing: Callable[[str], str]) -> None:
    said = re.findall(r"<text[^>]*>([^<]*)</text>", drawing(DIAGRAM))
    happened = ["claim, if a &lt; b", "in_progress,", "fence 1", "lost", "it is there", "read", "it is not"]
    assert said == ["worker A", "row", *happened, "nobody knows"]


def test_a_diagram_has_shorter_lines_on_a_phone(drawing: Callable[..., str]) -> None:
    drawn = drawing(
        "sequenceDiagram\nparticipant A\nparticipant B\nA->>B: succeed, with what the block assigned\n", on_a_phone=True
    )
    assert re.findall(r"<text[^>]*>([^<]*)</text>", drawn) == ["A", "B", "succeed, with what the", "block assigned"]
    assert float(re.findall(r'viewBox="0 0 (\d+)', drawn)[0]) <= 390


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("loop twice", "is not drawn here: 'loop twice'"),
        ("A->>B: hello", "names 'B', which is not a participant"),
        ("alt it is there", "an alt has no end"),
        ("end", "'end' without an alt"),
        ("else it is not", "'else it is not' without an alt"),
    ],
)
def test_what_a_diagram_does_not_draw_is_an_error(drawing: Callable[[str], str], line: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        drawing(f"sequenceDiagram\nparticipant A\n{line}\n")
