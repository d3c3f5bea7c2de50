import os
import signal
import sys
import time
from collections.abc import Iterator

import pytest

from pynamodb_tracker.demo.interrupt import interrupts_held_back, never_lost


def interrupted_when_thrown_away() -> Iterator[int]:
    try:
        yield 1
    finally:
        raise KeyboardInterrupt


def work_after_a_lost_one() -> None:
    """Look at the clock now and then, as the demo does."""
    with never_lost():
        next(interrupted_when_thrown_away())
        end = time.monotonic() + 30
        while time.monotonic() < end:
            time.sleep(0.01)


def test_ctrl_c_is_not_lost_where_python_cannot_raise_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        work_after_a_lost_one()
    assert capsys.readouterr().err == ""


def test_other_exceptions_there_go_where_they_went_before(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: seen.append(unraisable.exc_type))

    class Broken:
        def __del__(self) -> None:
            raise LookupError

    with never_lost():
        Broken()
    assert seen == [LookupError]


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_ctrl_c_while_a_process_is_started_is_heard_afterwards() -> None:
    told: list[str] = []

    def start() -> None:
        with interrupts_held_back():
            os.kill(os.getpid(), signal.SIGINT)
            told.append("started")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            start()
    finally:
        signal.signal(signal.SIGINT, before)
    assert told == ["started"]
