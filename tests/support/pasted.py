"""Run files, each in a process of its own: `python -m tests.support.pasted FILE...`, with pytest for their tests.

The processes are forks of this one, which has imported what takes long. For each file, a line of JSON is printed.
"""

import asyncio
import contextlib
import gc
import importlib
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

import pynamodb.connection.base
import pytest

from pynamodb_tracker import Step, Task, UseCase
from pynamodb_tracker.testing import local_table
from tests.support.engines import quick_session
from tests.support.quick_botocore import leave_signatures_out

AT_ONCE = os.cpu_count() or 1

LARGE = (
    "aws_lambda_powertools.logging",
    "aws_lambda_powertools.metrics",
    "aws_lambda_powertools.utilities.typing",
    "django.core.asgi",
    "django.test",
    "fastapi.testclient",
    "mangum",
    "pydantic",
    "pynamodb_tracker.aws_lambda",
    "pynamodb_tracker.web",
    "sentry_sdk",
    "structlog",
)
"""Modules that several pages import, or that take long to import."""


class WarmTask(Task):
    """A table that makes the first request, which takes long."""

    class Meta:
        table_name = "warm"


class Warm(WarmTask):
    use_case_id = UseCase("warm")
    begin = Step(100)


def run(files: list[Path]) -> Iterator[dict[str, object]]:
    """Yield what became of each file: its exit code of pytest, and its output."""
    with local_table(WarmTask):
        Warm.create("w-1")
    with contextlib.redirect_stdout(sys.stderr):
        pytest.main(["--version", "-c", os.devnull])  # which imports pytest's own plugins
    for name in LARGE:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a child that collects would copy what it shares with this process
    waiting = files[::-1]
    running: dict[int, tuple[Path, IO[bytes]]] = {}
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            file, output = waiting.pop(), cast("IO[bytes]", tempfile.TemporaryFile())  # noqa: SIM115 - closed when it was read
            child = os.fork()
            if child == 0:
                _run_in_child(file, output.fileno())
            running[child] = (file, output)
        child, status = os.wait()
        file, output = running.pop(child)
        with output:
            output.seek(0)
            yield {"file": file.name, "code": os.waitstatus_to_exitcode(status), "output": output.read().decode()}


def _run_in_child(file: Path, output: int) -> None:
    code = 1
    try:
        os.dup2(output, 1)
        os.dup2(output, 2)
        folder = file.parent / file.stem
        folder.mkdir()
        os.chdir(folder)
        loop = asyncio.new_event_loop()  # kept, for libraries that expect one, such as Mangum
        asyncio.set_event_loop(loop)
        options = [
            "-q",
            "-W",
            "error",
            "-W",
            "ignore::pytest.PytestAssertRewriteWarning",
            "-p",
            "no:cacheprovider",
            "--import-mode=importlib",
            "-o",
            f"python_files={file.name}",  # pytest also rewrites every module whose name matches
        ]
        code = int(pytest.main([*options, "-c", os.devnull, "--rootdir", str(file.parent), str(file)]))
    except BaseException:  # noqa: BLE001 - the process ends here, and its parent shows what it has printed
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    leave_signatures_out()
    pynamodb.connection.base.get_session = quick_session  # type: ignore[attr-defined]  # PynamoDB does not export it
    for ended in run([Path(name) for name in sys.argv[1:]]):
        print(json.dumps(ended), flush=True)  # noqa: T201 - what the test reads
