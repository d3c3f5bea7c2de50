"""Runs Python programs in processes that are forked from one with the library already imported.

Starting Python, importing the command line and reading botocore's service descriptions takes half a second of CPU time,
which tests that are not about starting can save.
"""

import atexit
import contextlib
import inspect
import multiprocessing.process
import os
import runpy
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from multiprocessing.reduction import DupFd
from typing import Any

from tests.support.processes import FORKS

_DEFAULTS = ("SIGHUP", "SIGTERM", "SIGUSR1")


class Forked(subprocess.Popen[Any]):
    """Runs `python -m MODULE ARGUMENTS` in a forked process, with Popen's options: `Forked([MODULE, *ARGUMENTS], ...)`.

    The program ignores the same signals as this process, as it would after a normal start.
    """

    def _execute_child(self, *given: Any, **named: Any) -> None:
        options = inspect.signature(super()._execute_child).bind(*given, **named).arguments  # type: ignore[misc]
        ends = [options[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        streams = [DupFd(number if end == -1 else end) for number, end in enumerate(ends)]
        ignored = [name for name in ("SIGINT", *_DEFAULTS) if signal.getsignal(getattr(signal, name)) == signal.SIG_IGN]
        environment = dict(options["env"] or os.environ)
        cwd = os.fspath(options["cwd"] or os.getcwd())  # noqa: PTH109 - it is sent to the process as text
        arguments = (streams, options["args"], cwd, environment, ignored, options["start_new_session"])
        self._process = FORKS.Process(target=_become, args=arguments)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid
        self._child_created = True
        pipes = [options[name] for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")]
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]  # the program's ends

    def _try_wait(self, flags: int) -> tuple[int, int]:
        self._process.join(0 if flags else None)
        code = self._process.exitcode
        return (0, 0) if code is None else (self.pid, code)

    def _handle_exitstatus(self, code: int) -> None:
        self.returncode = code

    def _internal_poll(self, **_: Any) -> int | None:
        if self.returncode is None:
            self.returncode = self._process.exitcode
        return self.returncode


def _become(  # noqa: PLR0917 - a process takes positional arguments
    streams: Sequence[Any],
    command: Sequence[str],
    cwd: str,
    environment: Mapping[str, str],
    ignored: Sequence[str],
    start_new_session: bool,  # noqa: FBT001
) -> None:
    if start_new_session:
        os.setsid()
    for number, stream in enumerate(streams):
        found = stream.detach()
        os.dup2(found, number)
        os.close(found)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - Python opens it in the same way
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, errors="backslashreplace", buffering=1)  # noqa: SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]
    for name in ("SIGINT", *_DEFAULTS):
        standard = signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL
        signal.signal(getattr(signal, name), signal.SIG_IGN if name in ignored else standard)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    multiprocessing.process.ORIGINAL_DIR = cwd  # type: ignore[attr-defined]  # where its own child processes start
    module, *arguments = command
    sys.argv = [module, *arguments]
    sys.path.insert(0, cwd)
    os._exit(_run(module))


def _run(module: str) -> int:
    """Run a module like Python does, wait for its threads, and return the exit code."""
    code = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            sys.stderr.write(f"{ended.code}\n")
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    except BaseException:  # noqa: BLE001 - Python prints any exception at the end, too
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    return code
