"""The package's source: what is done in one place only, and what every log record and every import has to have."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import TypeVar

import pytest

import pynamodb_tracker
from pynamodb_tracker.model.status import CANCELLED, END, end_of
from tests.support.pages import ROOT

N = TypeVar("N", bound=ast.AST)

NODES: dict[str, list[ast.AST]] = {}
"""The nodes of each module's syntax tree, by the module's path in the package."""


@pytest.fixture(autouse=True, scope="module")
def _parsed() -> Iterator[None]:
    """Parse the package once for all of these tests."""
    package = Path(pynamodb_tracker.__file__).parent
    for path in sorted(package.rglob("*.py")):
        NODES[path.relative_to(package).as_posix()] = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    yield
    NODES.clear()


def each(kind: type[N]) -> Iterator[tuple[str, N]]:
    return ((module, node) for module, nodes in NODES.items() for node in nodes if isinstance(node, kind))


def called(call: ast.Call) -> str:
    """Return the called name, with that of its module or object."""
    function = call.func
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        return f"{function.value.id}.{function.attr}"
    return function.id if isinstance(function, ast.Name) else ""


def modules_that_call(names: set[str]) -> set[str]:
    return {module for module, call in each(ast.Call) if called(call) in names}


OTHER_WAYS = {"JSONEncoder", "dump", "dumps"}


def test_the_package_writes_json_in_one_place() -> None:
    used = {
        module
        for module, node in each(ast.Attribute)
        if isinstance(node.value, ast.Name) and node.value.id == "json" and node.attr in OTHER_WAYS
    }
    imported = {module for module, node in each(ast.ImportFrom) if node.module == "json"}
    assert used | imported == {"model/strict_json.py"}


def compares_an_end(compare: ast.Compare) -> bool:
    operands = [compare.left, *compare.comparators]
    return any(isinstance(operand, ast.Name) and operand.id in {"END", "CANCELLED"} for operand in operands)


def test_only_one_guard_compares_a_code_with_an_end_and_all_others_ask_which_end_it_is() -> None:
    found = {(module, ast.unparse(compare)) for module, compare in each(ast.Compare) if compares_an_end(compare)}
    assert found == {("writes/conditions.py", "TaskRow.status < END")}
    assert [end_of(code) for code in (END, CANCELLED, 990, None)] == ["succeeded", "cancelled", None, None]


SLEEPS = {
    f"{module}.{name}" for module in ("asyncio", "clock", "time") for name in ("sleep", "sleep_unless", "wait_async")
} | {"clock.wait"}

WAITS_FOR_WORK = {
    "aio/run.py": "the next heartbeat",
    "clock.py": "the clocks themselves",
    "control/slots.py": "slots, and their renewal",
    "execution/heartbeat.py": "the next heartbeat",
    "task/guarded.py": "a table that is being created",
    "work/dispatcher.py": "the next poll, the index, and the turn of a rate",
    "work/source.py": "slots, and others who have met this worker",
}
"""Where the package may sleep besides, and for what."""

THE_ONE = "dynamodb/retries.py"
DRAWS_PAUSES = {"dynamodb/backoff.py", THE_ONE, "work/candidates.py"}


def test_nothing_but_one_function_sleeps_before_a_request_is_sent_again() -> None:
    """No retry outlasts a lock, a deadline or a stop."""
    assert modules_that_call(SLEEPS) - {THE_ONE} == set(WAITS_FOR_WORK)


def test_only_that_function_draws_the_pause_before_a_request() -> None:
    assert modules_that_call({"jittered_pause"}) | {"dynamodb/backoff.py"} == DRAWS_PAUSES


METHODS = {f"log.{level}" for level in ("log", "debug", "info", "warning", "error", "exception", "critical")}

ABOUT_NO_TASK = [
    ("aws_lambda/publisher.py", "the bus has refused events"),
    ("aws_lambda/trigger.py", "a function of the payload raised: nothing is known of the task yet"),
    ("control/slots.py", "a slot could not be given back"),
    ("dynamodb/batch_execute.py", "what an engine or a policy allows"),
    ("dynamodb/connection.py", "a table that answers in small pieces"),
    ("model/failure.py", "an exception that takes no note"),
    ("web/decisions.py", "the audit log, whose lines are JSON"),
    ("work/task_executor.py", "the worker stops"),
    ("worker/team.py", "the file of a probe cannot be touched"),
    ("worker/process_team.py", "a process that has ended"),
    ("worker/process_team.py", "the worker stops"),
    ("worker/team.py", "the worker starts"),
]
"""Modules, one for each record that is about no task and no step, and what it is about."""


def has_fields(call: ast.Call) -> bool:
    extra = next((ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg == "extra"), "")
    return extra.endswith("fields") or "fields(" in extra


def test_every_log_record_has_the_fields_unless_it_is_about_no_task() -> None:
    without = [module for module, call in each(ast.Call) if called(call) in METHODS and not has_fields(call)]
    assert sorted(without) == sorted(module for module, _ in ABOUT_NO_TASK)


def test_every_package_that_the_library_imports_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    lists = [project["dependencies"], *(extras[name] for name in extras.keys() - {"bench", "dev", "docs"})]
    declared = {re.split(r"[^\w-]", requirement)[0].lower() for requirement in chain(*lists)}
    imported = {alias.name.partition(".")[0] for _, node in each(ast.Import) for alias in node.names}
    imported |= {node.module.partition(".")[0] for _, node in each(ast.ImportFrom) if node.module and not node.level}
    imported -= sys.stdlib_module_names | {"pynamodb_tracker"}
    imported -= {"pytest", "typing_extensions"}  # what imports our plugin; what only type checkers import
    distributions = metadata.packages_distributions()
    assert {name for name in imported if declared.isdisjoint(map(str.lower, distributions[name]))} == set()
