"""Runs pages as modules, each in its own process: `python -m tests.support.pasted FILE...`. pytest runs their tests.

The processes are forked from this one, which has already imported the slow modules. It prints a line of JSON per file.
"""

import asyncio
import contextlib
import gc
import importlib
import json
import os
import re
import runpy
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

import pytest

from pynamodb_tracker import Step, Task, UseCase
from pynamodb_tracker.testing import local_table
from tests.support.quick_botocore import (
    leave_signatures_out,
    pass_items_on,
    remember_names_and_endpoints,
    share_descriptions,
)
from tests.support.quick_moto import hurry

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
    """A table for a first request, which is slow."""

    class Meta:
        table_name = "warm"


class Warm(WarmTask):
    use_case_id = UseCase("warm")
    begin = Step(100)


def run(files: list[Path]) -> Iterator[dict[str, object]]:
    """Yield each file's exit code and output."""
    with local_table(WarmTask):
        Warm.create("w-1")
    with contextlib.redirect_stdout(sys.stderr):
        pytest.main(["--version", "-c", os.devnull])  # imports pytest's own plugins
    for name in LARGE:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a garbage collection in a child would copy memory shared with this process
    waiting = files[::-1]
    running: dict[int, tuple[Path, IO[bytes]]] = {}
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            file, output = waiting.pop(), cast("IO[bytes]", tempfile.TemporaryFile())  # noqa: SIM115 - closed after reading
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
        folder = file.with_suffix("")  # has the page's first block as shop.py, which the others may import
        os.chdir(folder)
        sys.path.insert(0, str(folder))
        loop = asyncio.new_event_loop()  # for libraries that expect one, such as Mangum
        asyncio.set_event_loop(loop)
        if re.search(r"^ *def test_", file.read_text(encoding="utf-8"), re.MULTILINE):
            code = _run_tests(file)
        else:
            warnings.simplefilter("error")
            runpy.run_path(str(file), run_name=file.stem)
            code = 0
    except BaseException:  # noqa: BLE001 - the process ends here, and its parent shows the output
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _run_tests(file: Path) -> int:
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
        f"--confcutdir={file.parent}",  # or it looks at everything in the folders above
    ]
    return int(pytest.main([*options, "-c", os.devnull, "--rootdir", str(file.parent), str(file)]))


if __name__ == "__main__":
    leave_signatures_out()
    remember_names_and_endpoints()
    share_descriptions()
    pass_items_on()
    hurry()
    for ended in run([Path(name) for name in sys.argv[1:]]):
        print(json.dumps(ended), flush=True)  # noqa: T201 - the test reads it
