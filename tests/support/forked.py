"""Runs Python programs in processes that are forked from one with the library already imported.

Starting Python, importing the command line and reading botocore's service descriptions takes half a second of CPU time,
which tests that are not about starting can save. On Linux, this also holds for the processes that a program spawns.
"""

import atexit
import contextlib
import ctypes
import fcntl
import inspect
import multiprocessing.process
import multiprocessing.util
import os
import pickle
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any

from tests.support.processes import FORKS

_DEFAULTS = ("SIGHUP", "SIGTERM", "SIGUSR1")
_PR_SET_CHILD_SUBREAPER = 36
_LONGEST = 100_000  # bytes of a request


class Forked(subprocess.Popen[Any]):
    """Runs `python -m MODULE ARGUMENTS` in a forked process, with Popen's options: `Forked([MODULE, *ARGUMENTS], ...)`.

    The program ignores the same signals as this process, as it would after a normal start. A `preexec_fn` is pickled.
    """

    def _execute_child(self, *given: Any, **named: Any) -> None:
        options = inspect.signature(super()._execute_child).bind(*given, **named).arguments  # type: ignore[misc]
        ends = [options[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        streams = [DupFd(number if end == -1 else end) for number, end in enumerate(ends)]
        environment = dict(options["env"] or os.environ)
        cwd = os.fspath(options["cwd"] or os.getcwd())  # noqa: PTH109 - it is sent to the process as text
        setting_up = (options["start_new_session"], options["preexec_fn"])
        arguments = (streams, options["args"], cwd, environment, _ignored(), *setting_up)
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
    before: Callable[[], object] | None,
) -> None:
    if start_new_session:
        os.setsid()
    opened = [stream.detach() for stream in streams]
    if sys.platform == "linux":
        _spawn_from_a_fork(without=opened)
    _prepare(opened, range(3), cwd, environment, ignored, before)
    module, *arguments = command
    sys.argv = [module, *arguments]
    sys.path.insert(0, cwd)
    os._exit(_run(lambda: runpy.run_module(module, run_name="__main__", alter_sys=True)))


def _prepare(  # noqa: PLR0917 - the parts of one request
    given: Sequence[int],
    numbers: Sequence[int],
    cwd: str,
    environment: Mapping[str, str],
    ignored: Sequence[str],
    before: Callable[[], object] | None = None,
) -> None:
    """Give this process what a new one would have: open files by their numbers, a folder, variables and signals."""
    above = max(numbers) + 1
    moved = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, above) for each in given]
    for each in given:
        os.close(each)
    for each, number in zip(moved, numbers, strict=True):
        os.dup2(each, number)
        os.close(each)
    if before is not None:
        before()
    sys.stdin = _stream(0, "r")
    sys.stdout = _stream(1, "w")
    sys.stderr = _stream(2, "w", errors="backslashreplace", buffering=1)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]
    for name in ("SIGINT", *_DEFAULTS):
        standard = signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL
        signal.signal(getattr(signal, name), signal.SIG_IGN if name in ignored else standard)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    multiprocessing.process.ORIGINAL_DIR = cwd  # type: ignore[attr-defined]  # where its own child processes start


def _stream(number: int, mode: str, **options: Any) -> Any:
    """Open a standard stream as Python does: None if it is closed."""
    return open(number, mode, closefd=False, **options) if _is_open(number) else None


def _is_open(number: int) -> bool:
    with contextlib.suppress(OSError):
        os.fstat(number)
        return True
    return False


def _ignored() -> list[str]:
    return [name for name in ("SIGINT", *_DEFAULTS) if signal.getsignal(getattr(signal, name)) == signal.SIG_IGN]


def _spawn_from_a_fork(*, without: Sequence[int]) -> None:
    """Let multiprocessing spawn processes that are forked from this one as it is now, in place of new interpreters.

    Linux makes this process their parent, as after a real spawn, because the process that forks each of them ends.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        for each in without:
            os.close(each)
        _fork_on_request(theirs)
    theirs.close()
    guard = threading.Lock()

    def spawn(_path: object, arguments: Sequence[str], passed: Sequence[int]) -> int:
        numbers = sorted({*filter(_is_open, range(3)), *passed})
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        request = pickle.dumps((arguments, numbers, str(Path.cwd()), dict(os.environ), _ignored(), mask))
        with guard:
            socket.send_fds(ours, [request], numbers)
            return int(ours.recv(_LONGEST))

    vars(multiprocessing.util)["spawnv_passfds"] = spawn


def _fork_on_request(requests: socket.socket) -> None:
    for name in ("SIGINT", *_DEFAULTS):
        signal.signal(getattr(signal, name), signal.SIG_IGN)  # they are for the program
    while True:
        request, given, *_ = socket.recv_fds(requests, _LONGEST, 16)
        if not request:
            os._exit(0)
        if (forking := os.fork()) == 0:
            between, child = os.getpid(), os.fork()
            if child == 0:
                requests.close()
                _spawned(given, between, *pickle.loads(request))  # noqa: S301 - from the program
            requests.send(str(child).encode())
            os._exit(0)
        for each in given:
            os.close(each)
        os.waitpid(forking, 0)


def _spawned(  # noqa: PLR0917 - the parts of one request
    given: Sequence[int],
    between: int,
    arguments: Sequence[str],
    numbers: Sequence[int],
    cwd: str,
    environment: Mapping[str, str],
    ignored: Sequence[str],
    mask: Sequence[int],
) -> None:
    while os.getppid() == between:
        time.sleep(0.001)
    _prepare(given, numbers, cwd, environment, ignored)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    if any(name.startswith("COVERAGE_") for name in environment):
        import coverage  # noqa: PLC0415 - only where it measures

        coverage.process_startup()
    *_, code, flag = sys.orig_argv = list(arguments)
    sys.argv = ["-c", flag]
    os._exit(_run(lambda: exec(code, {})))  # noqa: S102 - multiprocessing's own


def _run(program: Callable[[], object]) -> int:
    """Run a program like Python does, wait for its threads, and return the exit code."""
    code = 0
    try:
        program()
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
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = 120  # as Python exits
    return code
