"""The scene `kill`, when it ends early. `tests/docs/test_images.py` compares its whole picture."""

import io
import os
import signal
import socket
import struct
import threading
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
from rich.console import Console

from pynamodb_tracker.cli.interrupts import StopRequest
from pynamodb_tracker.demo import DemoError, kill


def interrupt(*_: str) -> None:
    os.kill(os.getpid(), signal.SIGINT)
    os._exit(7)


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_ctrl_c_leaves_the_end_of_the_workers_to_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kill, "WORK", {"o-1": interrupt})
    [worker] = kill._start_workers("")
    worker.join(60)
    assert worker.exitcode == 7


def test_the_scene_ends_when_it_is_told_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = StopRequest()
    monkeypatch.setattr(kill, "_kill_in_the_middle", lambda *_: stopped.set())
    with pytest.raises(KeyboardInterrupt):
        kill.run(Console(file=io.StringIO()), stopped)


def test_a_worker_that_charges_nothing_ends_the_scene_and_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    worker = SimpleNamespace(kill=lambda: done.append("kill"), join=lambda: done.append("join"))
    monkeypatch.setattr(kill, "_LONGEST", 0)
    monkeypatch.setattr(kill, "_start_workers", lambda _: [worker])
    with pytest.raises(DemoError, match="has not charged its order within 0 s"):
        kill._kill_in_the_middle("", kill.Gateway())
    assert done == ["kill", "join"]


def test_a_connection_that_breaks_prints_nothing(capfd: pytest.CaptureFixture[Any]) -> None:
    gateway = kill.Gateway()
    with kill.serving(gateway) as url:
        client = socket.create_connection(("127.0.0.1", urlsplit(url).port or 0))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset when it is closed
        client.sendall(b"POST /charge/o-1/key HTTP/1.0\r\n\r\n")
        assert gateway.first_charges.acquire(timeout=60)
        [handler] = [each for each in threading.enumerate() if "process_request_thread" in each.name]
        client.close()
        handler.join(60)
    assert capfd.readouterr().err == ""
