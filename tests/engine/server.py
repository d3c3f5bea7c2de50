"""A dynoxide of the tests, which they may kill and restart."""

import atexit
import os
import socket

from pynamodb_tracker.testing import server


class Server(server.Server):
    """A dynoxide process with tables in memory, or in the file at `path`, which survive `kill` and `restart`."""

    def __init__(self, binary: str, *, path: str | os.PathLike[str] | None = None) -> None:
        self._port_while_down: socket.socket | None = None
        super().__init__(binary, path=path)
        atexit.register(self.stop)

    def kill(self) -> None:
        """Kill the process with SIGKILL, and return when it is gone. Its port refuses connections until `restart`."""
        self._input.write(b"k")
        self._process.wait()
        # Linux lets the next server bind this port again as well, and gives it to nobody else.
        self._port_while_down = socket.socket()
        self._port_while_down.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._port_while_down.bind(("127.0.0.1", self.port))

    def restart(self) -> None:
        """Start it again after `kill`, on the same port and the same file, and return when it listens."""
        self._let_go()
        complaint = self._start()
        assert complaint is None, complaint
        self._forget_port()

    def stop(self) -> None:
        """End the process. Calling it again has no further effect."""
        atexit.unregister(self.stop)
        self._forget_port()
        super().stop()

    def _forget_port(self) -> None:
        if self._port_while_down is not None:
            self._port_while_down.close()
            self._port_while_down = None
