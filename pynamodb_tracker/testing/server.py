"""Runs dynoxide: DynamoDB in one binary, in memory or in a file, for all processes on this machine."""

import os
import shutil
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, cast

from pynamodb_tracker.dynamodb.forking import in_forked_process
from pynamodb_tracker.model.arguments import shown

CRATE = "3.2.0"  # the version of https://crates.io/crates/dynoxide-rs in our tests
PATH_VARIABLE = "DYNOXIDE"
HOW_TO_GET_IT = (
    "Run `npm install --global dynoxide`, download it from https://github.com/nubo-db/dynoxide/releases, or build it: "
    f"cargo install dynoxide-rs --version {CRATE} --no-default-features --features native-sqlite,http-server,cli"
)
_WATCH = Path(__file__).with_name("watch.py")
_LAST_PORT = 65_535
_PORT_TRIES = 3
_START_TIMEOUT = 30.0

_started: "weakref.WeakSet[Server]" = weakref.WeakSet()


class LocalServerError(RuntimeError):
    """The local server cannot start. The message gives the reason and the remedy."""


class Server:
    """A dynoxide process, which ends with this process at the latest."""

    def __init__(self, binary: str, *, path: str | os.PathLike[str] | None = None, port: int = 0) -> None:
        if type(port) is not int or not 0 <= port <= _LAST_PORT:
            raise ValueError(f"port must be a whole number from 0 to {_LAST_PORT:,}, not {shown(port)}")
        self._command = [binary, "serve", "--host", "127.0.0.1"]
        if path is not None:
            _check_file(Path(path))
            self._command += ["--db-path", os.fspath(path)]
        for _ in range(1 if port else _PORT_TRIES):  # another program may take a free port first
            self.port = port or _free_port()
            complaint = self._start()
            if complaint is None:
                return
            if "in use" not in complaint:
                raise LocalServerError(f"dynoxide did not start: {complaint or 'it said nothing'}")
        raise LocalServerError(f"port {self.port} is already in use. Stop its program, or choose another port.")

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _start(self) -> str | None:
        """Start the process and wait until it listens. Return its error message if it ends."""
        # In its own session, Ctrl-C does not end it before the program has cleaned up.
        self._process = subprocess.Popen(  # noqa: S603 - through no shell
            [sys.executable, "-I", "-S", str(_WATCH), *self._command, "--port", str(self.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self._input, output = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
        _started.add(self)
        limit = threading.Timer(_START_TIMEOUT, self._let_go)
        limit.start()
        said = b""
        try:
            with output:
                while b"listening on" not in said and (more := output.read(4096)):
                    said += more
        except BaseException:
            self.stop()
            raise
        finally:
            limit.cancel()
        if b"listening on" in said:
            return None
        self.stop()
        return said.decode(errors="replace").strip().removeprefix("error: ")

    def stop(self) -> None:
        self._let_go()
        self._process.wait()  # watch.py kills a server that takes too long

    def _let_go(self) -> None:
        self._input.close()


@in_forked_process
def _let_go_of_all() -> None:
    """Close pipes that a forked process has inherited, because they would keep servers running."""
    for server in _started:
        server._let_go()  # noqa: SLF001 - of this module


def find_dynoxide() -> str:
    """Return dynoxide's path, from the variable DYNOXIDE or from the PATH. Raise LocalServerError without one."""
    named = os.environ.get(PATH_VARIABLE)
    found = shutil.which(named or "dynoxide")
    if found is None:
        missing = f"{PATH_VARIABLE}={named} is not a program." if named else "dynoxide is not on the PATH."
        raise LocalServerError(f"{missing} {HOW_TO_GET_IT}")
    return found


@contextmanager
def serving(*, path: str | os.PathLike[str] | None = None, port: int = 0) -> Iterator[str]:
    server = Server(find_dynoxide(), path=path, port=port)
    try:
        yield server.endpoint
    finally:
        server.stop()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _check_file(path: Path) -> None:
    """Refuse a file that another process has open, or that dynoxide did not write."""
    import sqlite3  # noqa: PLC0415 - only a table in a file needs it

    if not path.exists():
        return
    try:
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as file:
            file.execute("PRAGMA locking_mode = EXCLUSIVE")  # fails if another process has it open
            file.execute("BEGIN EXCLUSIVE")
            tables = {name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.Error as error:
        code = error.sqlite_errorcode & 0xFF  # https://www.sqlite.org/rescode.html: the primary code
        if code == sqlite3.SQLITE_BUSY:
            raise LocalServerError(
                f"another process has {path} open, perhaps another dynoxide. Stop it, or connect to it by "
                "AWS_ENDPOINT_URL_DYNAMODB instead."
            ) from error
        if code != sqlite3.SQLITE_NOTADB:
            return  # dynoxide reports the problem
        tables = {"no database"}
    if tables and "_tables" not in tables:
        raise LocalServerError(f"{path} is not a dynoxide database. Give the path of a new file.")
