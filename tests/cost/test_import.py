"""What the first line of a program costs: the import, on top of PynamoDB's own, in fresh processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

MOST_MS = 15.0
MOST_MS_FOR_LAMBDA = 10.0
"""And so much more for handlers."""
MOST_SHARE = 0.2
RUNS = 11
"""A busy machine makes any one run slow; what the import itself takes shows in the fastest of enough."""

MEASURE = """
import json, sys, time
began = time.perf_counter()
import pynamodb.models
between = time.perf_counter()
from pynamodb_tracker import ExecutionContext, Step, Task, UseCase
ended = time.perf_counter()
import pynamodb_tracker.aws_lambda
handled = time.perf_counter()
times = {"pynamodb": between - began, "tracker": ended - between, "aws_lambda": handled - ended}
print(json.dumps({name: 1000 * seconds for name, seconds in times.items()}))
"""

LOADED = """
import json, sys
from pynamodb_tracker import ExecutionContext, GiveUp, Step, Task, UseCase
print(json.dumps(sorted(sys.modules)))
"""


PLUGIN = "import pynamodb_tracker.pytest_plugin"


def told(script: str) -> Any:
    """Return what a script prints, in a process of its own that knows nothing of this one's settings.

    Coverage is one of them: a process that it traces takes half as long again for what it imports.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    command = [sys.executable, "-I", "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)  # noqa: S603 - this Python, with a script of this file
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def runs() -> list[dict[str, float]]:
    return [told(MEASURE)]  # it writes what Python compiles, once


@pytest.mark.parametrize(("what", "most"), [("tracker", MOST_MS), ("aws_lambda", MOST_MS_FOR_LAMBDA)])
def test_the_import_takes_some_milliseconds_more_than_that_of_pynamodb(
    runs: list[dict[str, float]], what: str, most: float
) -> None:
    while len(runs) < RUNS and least(runs, what) > bound(runs, most):
        runs.append(told(MEASURE))
    assert least(runs, what) <= bound(runs, most), f"beside {least(runs, 'pynamodb'):.1f} ms for PynamoDB"


def bound(runs: list[dict[str, float]], most: float) -> float:
    """Return what is allowed: a machine that is busy for all of the runs is slow for all imports."""
    return max(most, most / MOST_MS * MOST_SHARE * least(runs, "pynamodb"))


def least(runs: list[dict[str, float]], what: str) -> float:
    """Return the time of the run that was disturbed least."""
    return min(run[what] for run in runs)


def test_the_import_loads_neither_boto3_nor_what_belongs_to_an_extra() -> None:
    loaded = told(LOADED)
    top_level = {name.partition(".")[0] for name in loaded}

    assert "botocore" in top_level
    assert "pynamodb_tracker.model.repeat" not in loaded
    assert not top_level & {"boto3", "moto", "rich", "typer", "click", "jinja2", "pytest", "starlette"}
    assert not top_level & {"apscheduler", "asyncio", "opentelemetry"}
    assert not {f"pynamodb_tracker.{name}" for name in ("batch", "control", "worker")} & {*loaded}
    assert "multiprocessing" not in top_level
    assert [name for name in loaded if name.startswith("pynamodb_tracker.aio.")] == ["pynamodb_tracker.aio.lazy"]


def test_the_plugin_of_pytest_loads_nothing_of_it_before_a_test_asks_for_a_fixture() -> None:
    loaded = told(LOADED.replace("from pynamodb_tracker import ExecutionContext, GiveUp, Step, Task, UseCase", PLUGIN))

    assert [name for name in loaded if name.startswith(("pynamodb", "boto"))] == [
        "pynamodb_tracker",
        "pynamodb_tracker.pytest_plugin",
    ]
