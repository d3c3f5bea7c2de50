"""Every command line of the pages can be run as its page shows it, each by a process that has imported nothing yet."""

from __future__ import annotations

import ast
import gc
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from moto import mock_aws

from pynamodb_tracker.cli.command import CANNOT_RUN
from tests.cli.command import run
from tests.support.pages import ROOT, Page

COMMAND = "pynamodb-tracker "

ELSEWHERE = {
    "docs/how-to/deploy-a-pipeline.md": "tests/infra/order_pipeline/test_pages.py",
    "docs/how-to/watch-and-alarm.md": "tests/infra/order_pipeline/test_pages.py",
    "docs/how-to/develop-locally.md console": "tests/cli/test_documented_server.py",
    "docs/how-to/steer-from-the-terminal.md console": "tests/cli/test_documented_session.py",
}
"""Pages, or their blocks of a kind, whose commands another file runs."""

NAMES_ONLY = {"docs/how-to/grant-permissions.md", "CHANGELOG.md"}
"""Pages that name commands by their options, without what they are about."""

BOUND = {"pynamodb-tracker run confirm_payment o-3": "\nOrder.confirm_payment.does(charge)"}
"""What the text before a line says of the functions."""

RUN_FUNCTIONS = {"run", "retry", "worker"}
"""Commands that import functions: a module that is imported for the first time may bind them."""

SERVES = {"demo", "web"}
"""Commands that run until they are stopped, which have tests of their own."""

FILTERS: Mapping[str, Callable[[str], str]] = {
    ".[].task_id": lambda text: "".join(f"{each['task_id']}\n" for each in json.loads(text)),
    r'.findings[] | "\(.severity) \(.subject)"': lambda text: "".join(
        f"{each['severity']} {each['subject']}\n" for each in json.loads(text)["findings"]
    ),
}
"""What jq does with the programs of the pages: few machines have it."""


def lines_of(page: Page) -> Iterator[str]:
    """Yield the command lines of a page: of its blocks, and those with arguments in its text."""
    for block in page.blocks():
        if block.language in {"console", "sh"} and f"{page.name} {block.language}" not in ELSEWHERE:
            prompt = "$ " if block.language == "console" else ""
            whole = re.sub(r"\\\n *|(?<=\|)\n +", " ", block.text)
            yield from (
                line.removeprefix(prompt) for line in whole.splitlines() if line.startswith(prompt) and COMMAND in line
            )
    if page.name not in NAMES_ONLY:
        text = " ".join(" ".join(page.prose()).split())
        yield from re.findall(rf"`({COMMAND}[a-z-]+ [^`]+)`", text)


PAGES = [page for page in Page.all() if page.name not in ELSEWHERE and any(lines_of(page))]


def definitions(page: Page) -> str:
    """Return the imports, classes and functions of a page's examples."""
    kinds = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    module = ast.parse(page.module())
    last = {
        getattr(node, "name", str(place)): node for place, node in enumerate(module.body) if isinstance(node, kinds)
    }
    return ast.unparse(ast.Module([*last.values()], []))


SHOP = definitions(Page(ROOT / "docs" / "how-to" / "steer-from-the-terminal.md"))
"""For pages that have no classes."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Be in a folder of an application, on a fresh account."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    gc.collect()  # a table in memory that an earlier test has left open would be closed in the middle of this one
    gc.disable()
    try:
        with mock_aws():
            yield tmp_path
    finally:
        gc.enable()
    sys.modules.pop("shop", None)


def stages(line: str) -> Iterator[list[str]]:
    """Yield the words of each stage of a pipeline, without what runs after it has failed."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|<>")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in lexer:
        if word in {"|", "||"}:
            yield words
            words = []
            if word == "||":
                return
        else:
            words.append(word)
    yield words


def use_case() -> str:
    """Return the name of the first use case of the module."""
    classes = re.findall(r"^class (\w+)\(AppTask\)", Path("shop.py").read_text(encoding="utf-8"), re.MULTILINE)
    return str(classes[0])


def run_line(line: str) -> None:
    """Run the stages of a line one after the other; each has to be a command that can run."""
    text = ""
    for words in stages(line):
        variables = {}
        while "=" in words[0]:
            name, _, variables[name] = words.pop(0).partition("=")
        target = ""
        for sign in ("<", ">"):
            if sign in words:
                place = words.index(sign)
                _, target = words[place : place + 2]
                del words[place : place + 2]
                if sign == "<":
                    text, target = Path(target).read_text(encoding="utf-8"), ""
        if words[0] == "jq":
            text = FILTERS[words[-1]](text)
            continue
        assert words[0] == COMMAND.strip()
        if words[1] in RUN_FUNCTIONS or variables:  # the first import counts, and that of the table's name
            sys.modules.pop("shop", None)
        ended = run(*words[1:], of=f"shop:{use_case()}", text=text, **variables)
        assert ended.code != CANNOT_RUN, ended.err
        text = ended.out
        if target:
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            Path(target).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_command_lines_run_as_their_page_shows_them(page: Page, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    classes = definitions(page) or SHOP
    (folder / "shop.py").write_text(classes, encoding="utf-8")
    for name in ("tasks-restored", "tasks") if "tasks-restored" in "".join(page.lines) else ("tasks",):
        monkeypatch.setenv("TASKS_TABLE", name)
        run_line(f"TASKS_TABLE={name} pynamodb-tracker create-table --app shop:AppTask")
    for line in lines_of(page):
        if next(stages(line))[1] not in SERVES:
            (folder / "shop.py").write_text(classes + BOUND.get(line, ""), encoding="utf-8")
            run_line(line)
