"""Serves the page from this process, at an address with a token."""

import errno
import logging
import secrets
import socket
import sys
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from pynamodb_tracker.cli.command import CannotRunError
from pynamodb_tracker.cli.options import person
from pynamodb_tracker.task.task import Task
from pynamodb_tracker.worker.shutdown import handle_signals

LOCAL = ("127.0.0.1", "localhost", "::1")
_GRACE = 3  # seconds for requests to finish after Ctrl-C


class PageServer:
    def __init__(self, host: str, port: int, names: Sequence[str] = ()) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server((host, port), family=family)
        except OSError as error:
            why = f"cannot listen on {host} port {port}: {error.strerror}"
            option = "--host" if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL else "--port"
            raise CannotRunError(f"{why}: use a different {option}") from None
        self._names = [*names, host, *LOCAL]
        self._token = secrets.token_urlsafe(32)

    @property
    def address(self) -> str:
        name = f"[{self._names[0]}]" if ":" in self._names[0] else self._names[0]
        return f"http://{name}:{self._socket.getsockname()[1]}/?token={self._token}"

    def serve(self, models: Sequence[type[Task]], *, actions: bool, hide: Collection[str] = ()) -> None:
        """Serve the page until a signal, and log people's actions on stderr."""
        server = self._server(models, actions=actions, hide=hide)
        log, handler = logging.getLogger("pynamodb_tracker.web"), logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        log.addHandler(handler)
        try:  # uvicorn handles the signal and then repeats it, so the handler does nothing
            with handle_signals(dict.fromkeys(("SIGINT", "SIGTERM"), lambda *_: None)), self._socket:
                server.run([self._socket])
        finally:
            log.removeHandler(handler)

    @contextmanager
    def serving(self, models: Sequence[type[Task]]) -> Iterator[None]:
        """Serve the page read-only from another thread, refreshed every second."""
        server = self._server(models, actions=False, refresh=timedelta(seconds=1))
        thread = threading.Thread(target=server.run, args=([self._socket],), name="pynamodb_tracker page")
        with self._socket:
            thread.start()
            try:
                yield
            finally:
                server.should_exit = True
                thread.join()

    def _server(self, models: Sequence[type[Task]], **options: Any) -> Any:
        import uvicorn  # noqa: PLC0415 - an extra

        from pynamodb_tracker.web import dashboard  # noqa: PLC0415 - the same

        who = person()
        app = dashboard(*models, user=lambda _: who, token=self._token, hosts=self._names, **options)
        log: dict[str, Any] = {"access_log": False, "log_level": "warning"}  # an access log would contain the token
        config = uvicorn.Config(app, lifespan="off", server_header=False, timeout_graceful_shutdown=_GRACE, **log)
        return uvicorn.Server(config)
