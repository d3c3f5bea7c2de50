"""The shop on dynoxide, for this process and for commands in processes of their own."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from tests.cli.command import APP
from tests.cli.shop import StoreTask
from tests.demo.command import environment
from tests.engine.engine import Engine
from tests.support.engines import Dynoxide
from tests.support.forked import Forked
from tests.support.pages import ROOT

TIMEOUT = 120
Environment = Mapping[str, str]


@contextmanager
def on_server(engine: Engine) -> Iterator[Environment]:
    """Have the table of the shop there, and yield the environment in which a command finds it."""
    with Dynoxide.of([StoreTask], engine.endpoint, suffix=""):
        yield {
            "AWS_ENDPOINT_URL_DYNAMODB": engine.endpoint,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "PYNAMODB_TRACKER_APP": APP,
        }


@contextmanager
def started(
    server: Environment, *arguments: str, closed: Sequence[int] = (), is_about_the_start: bool = False, **options: Any
) -> Iterator[Any]:
    """Start a process in a group of its own, as a terminal does, without the standard streams that are `closed`.

    A real start finds modules in the folder `cwd` alone.
    """
    program = [sys.executable, "-P", "-m"] if is_about_the_start else []
    streams = dict.fromkeys(["stdin", "stdout", "stderr"], subprocess.PIPE)
    process: subprocess.Popen[str] = (subprocess.Popen if is_about_the_start else Forked)(
        [*program, "pynamodb_tracker", *arguments],
        env={**environment(), **server},
        preexec_fn=partial(_close, closed) if closed else None,
        start_new_session=True,
        text=True,
        **{"cwd": ROOT, **streams, **options},
    )
    end = threading.Timer(TIMEOUT, process.kill)  # whoever reads its output does not wait for ever
    end.start()
    with process:
        try:
            yield process
        finally:
            end.cancel()
            process.kill()


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait until a command ends, and return its exit code, and what it printed to stdout and to stderr."""
    out, err = process.communicate(timeout=TIMEOUT)
    return process.returncode, out, err


def _close(streams: Sequence[int]) -> None:
    for each in streams:
        os.close(each)
