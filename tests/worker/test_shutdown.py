"""Handlers of signals for a limited time, messages that they send, and signals that are blocked."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pynamodb_tracker.worker.shutdown import MessageQueue, block_signals, handle_signals

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX signals")


@pytest.fixture
def messages() -> MessageQueue[int]:
    return MessageQueue()


@pytest.fixture(autouse=True)
def sigusr1() -> Iterator[list[int]]:
    """Handle SIGUSR1, as a program does that has a handler of its own, and return what this handler got."""
    got: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _frame: got.append(number))
    yield got
    signal.signal(signal.SIGUSR1, before)


def sender(messages: MessageQueue[int]) -> Any:
    return lambda number, _frame: messages.put(number)


def raise_sigusr1() -> None:
    """Send it to this thread: one that is sent to the process may arrive in any thread that does not block it."""
    signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)


def test_a_handler_sends_messages_within_the_block_only(messages: MessageQueue[int], sigusr1: list[int]) -> None:
    with handle_signals({"SIGUSR1": sender(messages)}):
        raise_sigusr1()
        assert messages.wait() == signal.SIGUSR1
    raise_sigusr1()
    assert sigusr1 == [signal.SIGUSR1]


def test_handlers_in_a_block_within_a_block_give_way_to_those_around_them(messages: MessageQueue[int]) -> None:
    inner: MessageQueue[int] = MessageQueue()
    with handle_signals({"SIGUSR1": sender(messages)}):
        with handle_signals({"SIGUSR1": sender(inner)}):
            raise_sigusr1()
        raise_sigusr1()
    assert (messages.wait(time.monotonic()), inner.wait(time.monotonic())) == (signal.SIGUSR1, signal.SIGUSR1)
    assert (messages.wait(time.monotonic()), inner.wait(time.monotonic())) == (None, None)


def test_a_handler_is_restored_when_the_block_raises(messages: MessageQueue[int], sigusr1: list[int]) -> None:
    with pytest.raises(LookupError), handle_signals({"SIGUSR1": sender(messages)}):
        raise LookupError
    raise_sigusr1()
    assert sigusr1 == [signal.SIGUSR1]


def test_an_ignored_signal_stays_ignored_and_one_that_does_not_exist_is_skipped(messages: MessageQueue[int]) -> None:
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    with handle_signals({"SIGUSR1": sender(messages), "SIGNOWHERE": sender(messages)}):
        assert signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN


def test_in_another_thread_nothing_changes(messages: MessageQueue[int]) -> None:
    before, during = signal.getsignal(signal.SIGUSR1), list[object]()

    def work() -> None:
        with handle_signals({"SIGUSR1": sender(messages)}):
            during.append(signal.getsignal(signal.SIGUSR1))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert during == [before]


def test_messages_come_in_the_order_of_sending_and_none_after_the_deadline(messages: MessageQueue[int]) -> None:
    for number in range(3):
        messages.put(number)
    deadline = time.monotonic() + 0.01
    assert [messages.wait(deadline) for _ in range(4)] == [0, 1, 2, None]
    assert time.monotonic() >= deadline


def test_a_blocked_signal_arrives_after_the_block(sigusr1: list[int]) -> None:
    with block_signals("SIGUSR1", "SIGNOWHERE"):
        raise_sigusr1()
        assert sigusr1 == []
    assert sigusr1 == [signal.SIGUSR1]


def test_a_process_that_is_started_in_the_block_gets_its_signals_once_it_unblocks_them() -> None:
    program = """if True:
        import os, signal
        from pynamodb_tracker.worker.shutdown import unblock_signals
        os.kill(os.getpid(), signal.SIGTERM)
        print("blocked", flush=True)
        unblock_signals()
        print("still there")
    """
    with block_signals("SIGTERM"):
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)  # noqa: S603
    assert process.communicate()[0] == "blocked\n"
    assert process.returncode == -signal.SIGTERM
