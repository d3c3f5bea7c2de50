"""What the first line of a program costs: the import, on top of PynamoDB's own, in fresh processes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

MEASURE = f"""
import json, sys
sys.path.append({str(Path(__file__).parents[2])!r})  # behind the library that is installed
from tests.support.counting import calls_of

def pynamodb():
    import pynamodb.models

def tracker():
    from pynamodb_tracker import ExecutionContext, Step, Task, UseCase

def aws_lambda():
    import pynamodb_tracker.aws_lambda

print(json.dumps({{each.__name__: calls_of(each) for each in (pynamodb, tracker, aws_lambda)}}))
"""

LOADED = """
import json, sys
from pynamodb_tracker import ExecutionContext, GiveUp, Step, Task, UseCase
print(json.dumps(sorted(sys.modules)))
"""

PLUGIN = "import pynamodb_tracker.pytest_plugin"


def told(script: str) -> Any:
    """Return what a script prints, in a process of its own that knows nothing of this one's settings."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    command = [sys.executable, "-I", "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)  # noqa: S603 - this Python, with a script of this file
    return json.loads(done.stdout)


def test_the_import_does_a_small_part_of_the_work_of_that_of_pynamodb() -> None:
    """Work is counted in calls, which are the same on each machine. `make bench ARGS=imports` measures the time."""
    calls = told(MEASURE)
    assert 0 < calls["tracker"] <= 0.18 * calls["pynamodb"]
    assert 0 < calls["aws_lambda"] <= 0.08 * calls["pynamodb"]


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
