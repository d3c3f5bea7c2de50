"""Every command line of the pages can be run as its page shows it, each by a process that has imported nothing yet."""

import ast
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from moto import mock_aws
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.dynamodb.models import dynamodb_backends

from pynamodb_tracker.cli.command import CANNOT_RUN
from tests.cli.command import run
from tests.support.pages import ROOT, Block, Page

COMMAND = "pynamodb-tracker "

ELSEWHERE = {
    "docs/how-to/deploy-a-pipeline.md": "tests/infra/order_pipeline/test_pages.py",
    "docs/how-to/develop-locally.md console": "tests/cli/test_documented_server.py",
    "docs/how-to/steer-from-the-terminal.md console": "tests/cli/test_documented_session.py",
}
"""Pages, or their blocks of a kind, whose commands another file runs."""

NAMES_ONLY = {"docs/reference/permissions.md", "CHANGELOG.md"}
"""Pages that name commands by their options, without what they are about."""

BOUND = {"pynamodb-tracker run confirm_payment o-3": "\nOrder.confirm_payment.does(charge)"}
"""What the text before a line says of the functions."""

RUN_FUNCTIONS = {"run", "retry", "worker"}
"""Commands that import functions: a module that is imported for the first time may bind them."""

SERVES = {"demo", "web"}
"""Commands that run until they are stopped, which have tests of their own."""

TOOLS = {"comm", "diff", "sort"}
"""Programs of every POSIX system that the pages pass the output of commands to."""

FILTERS: Mapping[str, Callable[[str], str]] = {
    ".task_id": lambda text: "".join(f"{json.loads(line)['task_id']}\n" for line in text.splitlines()),
    ".[].task_id": lambda text: "".join(f"{each['task_id']}\n" for each in json.loads(text)),
    r'.findings[] | "\(.severity) \(.subject)"': lambda text: "".join(
        f"{each['severity']} {each['subject']}\n" for each in json.loads(text)["findings"]
    ),
}
"""What jq does with the programs of the pages: few machines have it."""


def lines_in(block: Block) -> Iterator[str]:
    """Yield the command lines of a block, and those of the tools that read their files."""
    prompt = "$ " if block.language == "console" else ""
    for line in re.sub(r"\\\n *|(?<=\|)\n +", " ", block.text).splitlines():
        if line.startswith(prompt) and (COMMAND in line or line.partition(" ")[0] in TOOLS):
            yield line.removeprefix(prompt)


def lines_of(page: Page) -> Iterator[str]:
    """Yield the command lines of a page: of its blocks, and those with arguments in its text."""
    for block in page.blocks():
        if block.language in {"console", "sh"} and f"{page.name} {block.language}" not in ELSEWHERE:
            yield from lines_in(block)
    if page.name not in NAMES_ONLY:
        yield from re.findall(rf"`({COMMAND}[a-z-]+ [^`]+)`", " ".join(" ".join(page.prose()).split()))


PAGES = [page for page in Page.all() if page.name not in ELSEWHERE and any(lines_of(page))]


def definitions(page: Page) -> str:
    """Return the imports, classes and functions of a page's examples, and the values that its classes name."""
    kinds = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    module = ast.parse(page.module())
    classes = [node for node in module.body if isinstance(node, ast.ClassDef)]
    named = {each.id for node in classes for each in ast.walk(node) if isinstance(each, ast.Name)}
    last = {
        getattr(node, "name", str(place)): node
        for place, node in enumerate(module.body)
        if isinstance(node, kinds) or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in named)
    }
    return ast.unparse(ast.Module([*last.values()], []))


SHOP = definitions(Page(ROOT / "docs" / "how-to" / "steer-from-the-terminal.md"))
"""For pages that have no classes, or whose functions need more than the classes."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Be in a folder of an application, on an account without tables: moto keeps them where it is in use already."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with mock_aws(), mock.patch.dict(dynamodb_backends[DEFAULT_ACCOUNT_ID]["us-east-1"].tables, clear=True):
        yield tmp_path
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
            _, _, program, *files = words
            text = FILTERS[program](Path(files[0]).read_text(encoding="utf-8") if files else text)
        elif words[0] in TOOLS:
            text = subprocess.run(words, input=text, stdout=subprocess.PIPE, text=True, check=False).stdout  # noqa: S603 - of our own pages
        else:
            assert words[0] == COMMAND.strip()
            if words[1] in RUN_FUNCTIONS or variables:  # the first import counts, and that of the table's name
                sys.modules.pop("shop", None)
            ended = run(*words[1:], of=f"shop:{use_case()}", text=text, **variables)
            assert ended.code != CANNOT_RUN, ended.err
            text = ended.out
        if target:
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            Path(target).write_text(text, encoding="utf-8")


@pytest.mark.usefixtures("engine")  # moto is in use in every test
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_command_lines_run_as_their_page_shows_them(page: Page, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    classes = (page.name != "docs/how-to/lambda.md" and definitions(page)) or SHOP
    (folder / "shop.py").write_text(classes, encoding="utf-8")
    for name in ("tasks-restored", "tasks") if "tasks-restored" in "".join(page.lines) else ("tasks",):
        monkeypatch.setenv("TASKS_TABLE", name)
        run_line(f"TASKS_TABLE={name} pynamodb-tracker create-table --app shop:AppTask")
    for line in lines_of(page):
        if next(stages(line))[1] not in SERVES:
            (folder / "shop.py").write_text(classes + BOUND.get(line, ""), encoding="utf-8")
            run_line(line)


RESTORE = Page(ROOT / "docs" / "how-to" / "recover-after-a-restore.md")


def tasks_in(table: str) -> dict[str, Any]:
    sys.modules.pop("shop", None)
    lines = run("export", of="shop:Order", TASKS_TABLE=table).lines
    return {task.pop("task_id"): task for task in map(json.loads, lines)}


@pytest.fixture
def restored(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a table, one that was restored from its backup, and what has happened since."""
    (folder / "shop.py").write_text(definitions(RESTORE), encoding="utf-8")
    for name in ("tasks-restored", "tasks"):
        monkeypatch.setenv("TASKS_TABLE", name)
        run_line(f"TASKS_TABLE={name} pynamodb-tracker create-table --app shop:AppTask")
    for task_id in ("same", "done", "ahead", "gone"):
        run_line(f"TASKS_TABLE=tasks pynamodb-tracker create {task_id}")
    order: Any = sys.modules["shop"].Order
    client = order.tracker.connection().connection.client
    for item in client.scan(TableName="tasks")["Items"]:
        client.put_item(TableName="tasks-restored", Item=item)
    order.confirm_payment.run("done", lambda ctx: ctx.task.data.update(receipt=7))
    order.ship.run("done")
    order.confirm_payment.run("ahead", lambda _: None)
    order.delete_task("gone")
    order.create("new")


def run_blocks(word: str) -> None:
    """Run the comparison of the page on restoring, and its block with a word."""
    for block in RESTORE.blocks():
        if block.language == "sh" and re.search(rf"^diff |{word}", block.text, re.MULTILINE):
            for line in lines_in(block):
                run_line(line)


@pytest.mark.usefixtures("restored")
def test_the_page_on_restoring_takes_over_what_has_happened_since() -> None:
    run_blocks("load newer")
    expected = {**tasks_in("tasks"), "gone": {"state": "confirm_payment.pending"}}
    assert expected["done"] == {"state": "ship.succeeded", "data": {"receipt": 7, "label": "label of done"}}
    assert tasks_in("tasks-restored") == expected


@pytest.mark.usefixtures("restored")
def test_the_page_on_restoring_sets_aside_what_has_happened_since() -> None:
    run_blocks("ignore -")
    states = {task_id: task["state"] for task_id, task in tasks_in("tasks-restored").items()}
    ignored, pending = "confirm_payment.ignored", "confirm_payment.pending"
    assert states == {"same": pending, "gone": pending, "done": ignored, "ahead": ignored}
