"""Only one function sleeps before a request is sent again, so that no retry outlasts a lock, a deadline or a stop."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pynamodb_tracker

PACKAGE = Path(pynamodb_tracker.__file__).parent

SLEEPS = {"sleep", "sleep_unless", "wait_async"}
MODULES = {"asyncio", "clock", "time"}

WAITS_FOR_WORK = {
    "aio/run.py": "the next heartbeat",
    "cli/commands/live.py": "the next picture",
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


def calls(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
                yield f"{called.value.id}.{called.attr}"
            elif isinstance(called, ast.Name):
                yield called.id


@cache
def calls_by_file() -> dict[str, set[str]]:
    return {path.relative_to(PACKAGE).as_posix(): set(calls(path)) for path in PACKAGE.rglob("*.py")}


def files_that_call(names: set[str]) -> set[str]:
    return {path for path, called in calls_by_file().items() if names & called}


def test_nothing_but_one_function_sleeps_before_a_request_is_sent_again() -> None:
    sleeps = {f"{module}.{name}" for module in MODULES for name in SLEEPS} | {"clock.wait"}

    assert files_that_call(sleeps) - {THE_ONE} == set(WAITS_FOR_WORK)


def test_only_that_function_draws_the_pause_before_a_request() -> None:
    assert files_that_call({"jittered_pause"}) | {"dynamodb/backoff.py"} == DRAWS_PAUSES
