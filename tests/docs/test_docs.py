"""The pages say what is true: their examples run, and their links, commands, names and conditions exist.

A page is one module: its python blocks run from top to bottom in one namespace, and pytest runs the tests among them.
"""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import asdict
from operator import attrgetter
from pathlib import Path
from typing import Any, get_args

import cfnlint.decode
import hcl2
import pytest

from pynamodb_tracker import Status
from pynamodb_tracker.aws_lambda import TriggerName
from pynamodb_tracker.aws_lambda.trigger import trigger_named
from tests.support.pages import ROOT, Page
from tests.support.reference import REFERENCE
from tests.support.writes import as_told, puts_of_ship, writes_of_a_slot, writes_of_deliver, writes_of_ship

PAGES = Page.all()
NAMES = [page.name for page in PAGES]
SETTINGS = ("hcl", "json", "yaml")
LANGUAGES = {"python", "py", "console", "sh", "text", "mermaid", "yaml", "json", "hcl", "dockerfile"}

every_page = pytest.mark.parametrize("page", PAGES, ids=NAMES)


def blocks_of(page: Page, *languages: str) -> list[str]:
    return [block.text for block in page.blocks() if block.language in languages]


@pytest.mark.usefixtures("dynoxide")  # pages start servers
def test_every_page_runs_as_pasted_without_a_table_a_region_and_credentials(tmp_path: Path) -> None:
    files = []
    for page in PAGES:
        if page.module().strip():
            file = tmp_path / page.name.replace("/", "-").replace(".md", ".py")
            file.write_text(page.module(), encoding="utf-8")
            file.with_suffix("").mkdir()
            (file.with_suffix("") / "shop.py").write_text(blocks_of(page, "python")[0], encoding="utf-8")
            files.append(str(file))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment |= {"HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "AWS_EC2_METADATA_DISABLED": "true"}
    # Loading the plugins of all others once for each page is a third of the time.
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "pynamodb_tracker.pytest_plugin"}
    command = [sys.executable, "-m", "tests.support.pasted", *files]
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own pages
    ended = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(ended) == len(files) > 1, run.stderr
    broken = [each for each in ended if each["code"] != 0]
    assert not broken, "\n".join(f"{each['file']}\n{each['output']}" for each in broken)


def test_the_tables_of_a_page_are_in_one_region_wherever_it_is_pasted() -> None:
    with_tables = 0
    for page in PAGES:
        settings = re.findall(r"^( +)class Meta:\n((?:\1 +.*\n)+)", page.module(), re.MULTILINE)
        regions = {tuple(re.findall(r"region = (\S+)", text)) for _, text in settings}
        assert len(regions) <= 1, page.name  # the machine's region would be that of the others
        with_tables += len(regions)
    assert with_tables > 10


README = Page(ROOT / "README.md")


def test_the_readme_comes_to_the_point() -> None:
    text = README.path.read_text(encoding="utf-8")
    before = {mark: len(text.partition(mark)[0].split()) for mark in ("```", "pip install")}
    assert before["```"] <= 110
    assert before["pip install"] <= 180
    assert README.count_words() <= 900


def test_the_quick_start_prints_what_its_comments_say(tmp_path: Path) -> None:
    [shown], [lines] = blocks_of(README, "python"), blocks_of(README, "py")
    another = 'Order.create("o-9", state=Order.ship.pending)\n' + lines.replace("o-1", "o-9")
    (tmp_path / "shop.py").write_text(f"{shown}\n{another}\n", encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment |= {"HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "AWS_EC2_METADATA_DISABLED": "true"}
    command = [sys.executable, "shop.py"]
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own page
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.splitlines() == re.findall(r"print\(.*\)  # (.+)", shown)
    assert len(shown.splitlines()) <= 40


LEFT_OPEN = """
from pynamodb_tracker.testing import open_local_table
from tests.support.shop import AppTask, Order
open_local_table(AppTask)
print(Order.create("o-1").task_id)
"""


def test_a_script_that_leaves_its_table_open_ends_in_silence() -> None:
    run = subprocess.run([sys.executable, "-c", LEFT_OPEN], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - an own text
    assert (run.returncode, run.stdout, run.stderr) == (0, "o-1\n", "")


@every_page
def test_every_block_has_a_language_and_stands_at_the_margin(page: Page) -> None:
    assert {block.language for block in page.blocks()} <= LANGUAGES
    assert not [line for line in page.lines if re.match(r"\s+(```|~~~)|~~~", line)]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks_of(page, *SETTINGS)], ids=attrgetter("name"))
def test_every_block_of_settings_can_be_read(page: Page) -> None:
    for text in blocks_of(page, "json"):
        assert json.loads(text)
    for text in blocks_of(page, "hcl"):
        assert hcl2.loads(text)
    for text in blocks_of(page, "yaml"):
        template, problems = cfnlint.decode.decode_str(text)  # it knows the functions of CloudFormation
        assert template
        assert not problems


@every_page
def test_every_make_target_of_an_example_exists(page: Page) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    used = {target for text in blocks_of(page, "console", "sh") for target in re.findall(r"\bmake ([a-z]+)", text)}
    used |= {target for span in page.code() for target in re.findall(r"^make ([a-z]+)", span)}
    assert used <= targets


@pytest.mark.parametrize("page", [page for page in PAGES if page.links()], ids=attrgetter("name"))
def test_every_link_leads_somewhere(page: Page) -> None:
    for target in page.links():
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        file = (page.path.parent / path).resolve() if path else page.path
        assert file.is_relative_to(ROOT), target
        assert file.exists(), target
        assert not anchor or anchor in Page(file).anchors(), target


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    listed = re.findall(r"^ +- [^:]+: ([\w/-]+\.md)", (ROOT / ".mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    home, changelog, *pages = [page.name.removeprefix("docs/") for page in PAGES]
    assert (home, changelog) == ("README.md", "CHANGELOG.md")
    assert sorted(listed) == sorted(["index.md", "changelog.md", *pages])


def test_the_readme_leads_to_each_kind_of_page() -> None:
    linked = {target.partition("#")[0] for target in PAGES[0].links()}
    kinds = {str(Path(page.name).parent) for page in PAGES[2:]} - {"docs/reference"}  # to which the overview leads
    assert {str(Path(target).parent) for target in linked} >= kinds
    assert {page.name for page in PAGES if str(Path(page.name).parent) in {"docs", "docs/explanation"}} <= linked


JOBS = {"lambda": 900, "retry-and-reopen": 600, "run-a-worker": 450, "test-your-code": 350, "see-what-is-stuck": 400}
"""The guides to the most common jobs, and how many words each may have, without code."""


@pytest.mark.parametrize(("name", "most"), JOBS.items())
def test_a_common_job_is_one_click_away_and_takes_one_short_page(name: str, most: int) -> None:
    page = Page(ROOT / "docs" / "how-to" / f"{name}.md")
    assert page.name in {link.partition("#")[0] for link in README.links()}
    assert page.count_words() <= most


def test_there_is_one_guide_for_each_job_and_a_page_that_leads_to_them() -> None:
    guides = {page.stem for page in (ROOT / "docs" / "how-to").glob("*.md")}
    assert "index" in guides
    assert len(guides) <= 29


MOST_WORDS = {
    "Home": 900,
    "Learn": 3_500,
    "Guides": 800,
    "Run tasks": 1_400,
    "In AWS Lambda": 1_500,
    "Model your work": 3_900,
    "Test, and migrate": 1_100,
    "Inspect and intervene": 3_250,
    "Deploy": 2_900,
    "Plan": 4_100,
    "Reference": 3_700,
    "Internals": 3_900,
}
"""Without code, but with the texts of pictures, of the pages of a section of the site."""

MOST_IN_ALL = 30_000


def sections() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    navigation = (ROOT / ".mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2].partition("\n\n")[0]
    for line in navigation.splitlines():
        title, page = re.findall(r"- ([^:]+):(?: (\S+\.md))?", line)[0]
        if not page or title == "Home":
            found[title] = []
        if page:
            found[list(found)[-1]].append(page)
    return {title: pages for title, pages in found.items() if pages}


def test_no_section_is_longer_than_its_readers_need() -> None:
    words = {page.name.removeprefix("docs/"): page.count_words() for page in PAGES}
    del words["CHANGELOG.md"]
    words |= {"index.md": words.pop("README.md"), "changelog.md": 0}
    of_pages = {title: {page: words[page] for page in pages} for title, pages in sections().items()}
    assert of_pages.keys() == MOST_WORDS.keys()
    too_long = {title: pages for title, pages in of_pages.items() if sum(pages.values()) > MOST_WORDS[title]}
    assert too_long == {}
    assert sum(words.values()) <= MOST_IN_ALL


def test_no_sidebar_of_the_site_is_longer_than_a_screen() -> None:
    """A tab shows the entries of its own part, and no others."""
    navigation = (ROOT / ".mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2].partition("\n\n")[0]
    tabs = re.split(r"^  - ", navigation, flags=re.MULTILINE)[1:]
    assert [tab.partition(":")[0] for tab in tabs] == ["Home", "Learn", "Guides", "Operate", "Reference", "Internals"]
    assert max(len(re.findall(r": \S+\.md", tab)) for tab in tabs) <= 32


def test_the_reference_lists_what_each_trigger_replies() -> None:
    rows = [line.strip("| ").split(" | ") for line in REFERENCE.prose()]
    [columns] = [row[1:] for row in rows if row[0] == "the task is"]
    told = {
        (name, re.findall(r"`(\w+)`", row[0])[0]): reply
        for row in rows
        if row[1:] and set(row[1:]) <= {"ack", "raise"}
        for names, reply in zip(columns, row[1:], strict=True)
        for name in names.split(", ")
    }
    replies = {name: asdict(trigger_named(name).replies) for name in get_args(TriggerName)}
    told |= {(name, "batch"): "raise" if name == "kafka" else "report" for name in replies}  # in the text above it
    assert told == {(name, reason): reply for name, each in replies.items() for reason, reply in each.items()}


def test_the_messages_that_readers_search_for_are_those_of_the_library() -> None:
    prose = "\n".join(Page(ROOT / "docs" / "how-to" / "troubleshoot.md").prose())
    messages = re.findall(r'"([^"]+)" \|', prose)
    assert len(messages) > 10
    sources = [file.read_text(encoding="utf-8") for file in (ROOT / "pynamodb_tracker").rglob("*.py")]
    said = "\n".join(_texts(text) for text in sources if any(message[:12] in text for message in messages))
    assert [message for message in messages if message not in said] == []


def _texts(source: str) -> str:
    """Return the texts of a module's code, each on a line, without its docstrings."""
    nodes = list(ast.walk(ast.parse(source)))
    unsaid = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    joined = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    unsaid |= {id(part) for node in joined for part in node.values}
    texts = [str(node.value) for node in nodes if isinstance(node, ast.Constant) and id(node) not in unsaid]
    return "\n".join(texts + ["".join(str(getattr(part, "value", "{}")) for part in node.values) for node in joined])


def test_the_glossary_has_every_word_in_order_each_with_the_page_that_explains_it() -> None:
    page = Page(ROOT / "docs" / "glossary.md")
    parts = [part for part in "\n".join(page.prose()).split("\n## ")[1:] if "- **" in part]
    for part in parts:
        entries = re.findall(r"^- \*\*([^*]+)\*\*: ((?:.|\n  )+)", part, re.MULTILINE)
        words = [word for word, _ in entries]
        assert words == sorted(words)
        assert [word for word, told in entries if "](" not in told] == []
        assert len(words) == part.count("\n- ")
    said = {word for part in parts for word in re.findall(r"^- \*\*([^*]+)\*\*", part, re.MULTILINE)}
    assert {*Status, "attempt", "code", "due", "fence", "lock", "state", "status", "step", "task"} <= said
    assert {"use case", "worker"} <= said


# What contributing.md says about the source is compared with it.

CONTRIBUTING = Page(ROOT / "docs" / "contributing.md")


def test_the_picture_of_the_layers_is_what_import_linter_checks() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    [layers] = [
        contract["layers"]
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers" and contract["containers"] == ["pynamodb_tracker"]
    ]
    [drawn] = [text for text in blocks_of(CONTRIBUTING, "text") if text.startswith("__main__")]
    assert [line.partition("#")[0].split() for line in drawn.splitlines()] == [
        re.findall(r"\w+", layer) for layer in layers
    ]


def test_the_way_of_a_run_names_functions_of_the_modules_beside_them() -> None:
    [drawn] = [text for text in blocks_of(CONTRIBUTING, "text") if text.startswith("start ")]
    way = re.findall(r"^ *(\w.*?)  +(pynamodb_tracker/\S+)", drawn, re.MULTILINE)
    assert len(way) > 5
    for names, path in way:
        source = (ROOT / path).read_text(encoding="utf-8")
        for name in names.split(", "):
            assert re.search(rf"^ *(def|class) {name.rpartition('.')[2]}\b", source, re.MULTILINE), (name, path)


def test_the_paths_that_contributors_are_led_to_exist() -> None:
    named = {*CONTRIBUTING.code(), *(word for text in blocks_of(CONTRIBUTING, "text") for word in text.split())}
    paths = {name for name in named if re.fullmatch(r"\.?[\w.-]+(/[\w.-]+)+", name)}
    assert len(paths) > 20
    assert not [path for path in sorted(paths) if not (ROOT / path).exists()]


OF_OTHERS = {"AWS_ACCOUNT_ID_ENDPOINT_MODE", "REPOSITORY", "WriteKeyRangeThroughputThrottleEvents"}
INTERNALS = [page for page in PAGES if page == CONTRIBUTING or page.name.startswith("docs/explanation/")]


def test_the_names_on_a_page_about_internals_exist() -> None:
    files = [*(ROOT / "pynamodb_tracker").rglob("*.py"), *(ROOT / "tests").rglob("*.py"), ROOT / "pyproject.toml"]
    sources = [file.stem + "\n" + file.read_text(encoding="utf-8") for file in files if file != Path(__file__)]
    known = identifiers("\n".join(sources)) | OF_OTHERS
    for page in INTERNALS:
        of_blocks = identifiers("\n".join(block.text for block in page.blocks()))
        assert identifiers("\n".join(page.code())) - known - of_blocks == set(), page.name


def identifiers(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z]\w{3,}", text))


# What lock.md shows of the protocol is compared with what is sent.

LOCK = Page(ROOT / "docs" / "explanation" / "lock.md")
MOVE = "status = {}, status_key = :status_key, due_time = :due, update_time = :now"


class Flat(ast.NodeTransformer):
    """Makes `a and (b and c)` and `a and b and c` one."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.BoolOp:
        self.generic_visit(node)
        parts = [
            part.values if isinstance(part, ast.BoolOp) and type(part.op) is type(node.op) else [part]
            for part in node.values
        ]
        return ast.BoolOp(node.op, [value for values in parts for value in values])


def condition(text: str) -> str:
    text = re.sub(r"\b(AND|OR|NOT|IN)\b", lambda word: word[0].lower(), text)
    text = re.sub(r"(?<![<>])=", "==", text).replace(":", "value_").replace("#", "_of_")
    return ast.unparse(Flat().visit(ast.parse(" ".join(text.split()), mode="eval")))


def told_writes() -> dict[str, dict[str, Any]]:
    """Return the writes that the page shows, each by its name, as keyword and what stands behind it."""
    writes = {}
    for text in blocks_of(LOCK, "text"):
        for paragraph in text.split("\n\n"):
            name, _, body = paragraph.partition("\n")
            if re.fullmatch(r"[a-z ]+", name):
                writes[name] = dict(
                    re.findall(r"^  (IF|PUT|MOVE TO|SET|REMOVE|DELETE) +((?:.|\n {4})+)", body, re.MULTILINE)
                )
    return writes


def test_the_conditions_of_the_lock_are_written_as_they_are_sent() -> None:
    sent, put = writes_of_ship() | writes_of_deliver(), puts_of_ship()
    writes = {name: as_told(write) for name, write in sent.items()} | writes_of_a_slot()
    told = told_writes()
    assert len(told) > 25
    assert set(told) <= set(writes) | set(put)
    assert set(told) >= set(writes_of_a_slot())
    for name in told.keys() & put.keys():
        shown, real = told[name], put[name]
        assert (shown["IF"], parts(shown["PUT"])) == (real["IF"], parts(real["PUT"])), name
    for name in told.keys() & writes.keys():
        shown, real = told[name], writes[name]
        assert condition(shown["IF"]) == condition(real["IF"]), name
        moved = [MOVE.format(shown["MOVE TO"])] if "MOVE TO" in shown else []
        assert parts(", ".join([*moved, *filter(None, [shown.get("SET")])])) == parts(real.get("SET", "")), name
        for keyword in ("REMOVE", "DELETE"):
            assert parts(shown.get(keyword, "")) == parts(real.get(keyword, "")), name


def parts(text: str) -> set[str]:
    return {" ".join(part.split()) for part in text.split(",")}
