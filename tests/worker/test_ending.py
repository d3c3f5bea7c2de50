"""How a worker ends where something else ends at the same time, or a function gives the order."""

import asyncio
import logging
import os
import signal
import sys
import threading
from dataclasses import replace
from datetime import datetime, timedelta
from io import StringIO
from multiprocessing import Pipe
from typing import Any
from unittest.mock import Mock

import pytest

from pynamodb_tracker import Tally, Worker, transitions
from pynamodb_tracker.execution.run import Run
from pynamodb_tracker.query.due import DueTasks
from pynamodb_tracker.testing import StoppedClock
from pynamodb_tracker.testing.tables import OneAtATime
from pynamodb_tracker.work.polling import Backoff
from pynamodb_tracker.worker.process_team import READY, Ended, _Supervisor, parent_pipe, run_to_the_end
from pynamodb_tracker.worker.shutdown import Message, Messages, print_to_stderr
from pynamodb_tracker.worker.team import ThreadTeam
from tests.worker.shop import Order
from tests.worker.test_stopping import AT_ONCE, WAIT, Ctx, Hanging, posix, stopping

__all__ = ["stopping"]  # a fixture

pytestmark = pytest.mark.usefixtures("shop")

WAIT_LONG = timedelta(hours=1)


def test_an_end_that_is_being_recorded_at_the_end_of_the_grace_time_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cutting = threading.Event()
    succeed, cut_short = transitions.succeed, ThreadTeam.cut_short

    def slow(lock: Any) -> None:
        worker.stop()
        assert cutting.wait(WAIT)
        succeed(lock)

    def cut(team: ThreadTeam) -> None:
        cutting.set()
        cut_short(team)

    monkeypatch.setattr(transitions, "succeed", slow)
    monkeypatch.setattr(ThreadTeam, "cut_short", cut)
    Order.create("o-1")
    worker = Worker({Order.confirm: lambda _: None}, grace=AT_ONCE)
    assert worker.run() == {Order.confirm: Tally(succeeded=1)}
    assert Order.get_task("o-1").state == Order.ship.pending
    assert "still ran" not in caplog.text


def test_a_block_that_ends_while_its_task_is_given_back_counts_as_released(monkeypatch: pytest.MonkeyPatch) -> None:
    give_back = Run.give_back

    def ended_meanwhile(run: Run[Any]) -> bool:
        released = give_back(run)
        hanging.go.set()
        assert hanging.has_ended.wait(WAIT)
        return released

    hanging = Hanging()
    monkeypatch.setattr(Run, "give_back", ended_meanwhile)

    def stop() -> None:
        assert hanging.inside.wait(WAIT)
        worker.stop()

    Order.create("o-1")
    worker = Worker({Order.confirm: hanging}, grace=AT_ONCE)
    threading.Thread(target=stop).start()
    assert worker.run() == {Order.confirm: Tally(released=1)}


def test_after_sys_exit_in_a_function_others_have_the_grace_time_and_no_more() -> None:
    hanging = Hanging()

    def work(ctx: Ctx) -> None:
        if ctx.task.task_id == "hangs":
            hanging(ctx)
        assert hanging.inside.wait(WAIT)
        raise SystemExit(3)

    Order.create_many(["hangs", "leaves"])
    with pytest.raises(SystemExit) as caught:
        Worker({Order.confirm: work}, threads=2, grace=timedelta(seconds=0.05)).run()
    hanging.go.set()
    assert caught.value.code == 3
    assert Order.get_task("hangs").state == Order.confirm.pending
    assert Order.get_task("leaves").state == Order.confirm.failed


def test_a_base_exception_that_does_not_end_the_program_is_a_failure_and_the_worker_continues() -> None:
    def work(ctx: Ctx) -> None:
        if ctx.task.task_id == "cancelled":
            raise asyncio.CancelledError

    Order.create_many(["cancelled", *(f"o-{number}" for number in range(5))])
    assert Worker({Order.confirm: work}).run(until_idle=True)[Order.confirm].succeeded == 5
    assert Order.get_task("cancelled").errors[0].type == "CancelledError"


@posix
def test_the_first_ctrl_c_after_a_call_of_stop_waits_too(stopping: threading.Event) -> None:
    Order.create("o-1")
    function = Hanging()

    def orders() -> None:
        assert function.inside.wait(WAIT)
        worker.stop()
        assert stopping.wait(WAIT)
        os.kill(os.getpid(), signal.SIGINT)
        function.go.set()

    worker = Worker({Order.confirm: function})
    thread = threading.Thread(target=orders)
    thread.start()
    assert worker.run() == {Order.confirm: Tally(succeeded=1)}
    thread.join(WAIT)


class Closed(StringIO):
    def write(self, _: str) -> int:
        raise BrokenPipeError


@posix
@pytest.mark.parametrize("stream", [None, Closed()], ids=["none", "closed"])
def test_a_worker_that_cannot_print_its_status_continues(monkeypatch: pytest.MonkeyPatch, stream: Any) -> None:
    def ask(_: Ctx) -> None:
        os.kill(os.getpid(), signal.SIGUSR1)

    Order.create_many(["o-1", "o-2"])
    logging.getLogger("pynamodb_tracker").info("before stderr is gone")
    monkeypatch.setattr(sys, "stderr", stream)
    assert Worker({Order.confirm: ask}).run(until_idle=True) == {Order.confirm: Tally(succeeded=2)}


def test_the_status_is_printed_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    print_to_stderr("busy\n")
    assert capsys.readouterr().err == "busy\n"


def test_a_worker_until_idle_waits_for_a_slow_index(monkeypatch: pytest.MonkeyPatch, shop: StoppedClock) -> None:
    first = DueTasks.first

    def lagging(due: DueTasks[Any]) -> dict[int, datetime]:
        known = shop.now() - timedelta(seconds=0.5)
        return {code: time for code, time in first(due).items() if time <= known}

    Order.create("o-1")
    shop.advance(timedelta(seconds=2))
    monkeypatch.setattr(OneAtATime, "is_in_memory", False)
    monkeypatch.setattr(DueTasks, "first", lagging)
    tallies = Worker({Order.confirm: lambda _: None, Order.ship: lambda _: None}).run(until_idle=True)
    assert tallies == {Order.confirm: Tally(succeeded=1), Order.ship: Tally(succeeded=1)}


def test_stop_of_another_worker_sends_nothing_to_the_parent() -> None:
    sent: list[object] = []

    class Pipe:
        def send(self, what: object) -> None:
            sent.append(what)

    own, other = Worker({Order.confirm: lambda _: None}), Worker({Order.ship: lambda _: None})
    try:
        parent_pipe.open(Pipe(), [Order.confirm])  # type: ignore[arg-type]  # all that is used of one
        other.stop()
        assert sent == []
        own.stop()
        assert sent == [Message.STOP]
    finally:
        parent_pipe.__init__()  # type: ignore[misc]  # as it was


class Dead:
    pid = 4711

    def __init__(self, exitcode: int, *last: object) -> None:
        self.exitcode = exitcode
        self.pipe, theirs = Pipe()
        for message in last:
            theirs.send(message)
        theirs.close()

    def join(self) -> None:
        """Be gone already."""

    close = join


def supervised(processes: list[Dead], monkeypatch: pytest.MonkeyPatch, **settings: Any) -> _Supervisor:
    """Return a supervisor at its end, after it has taken processes from the list."""

    def start_one(_: _Supervisor) -> tuple[Dead, Any]:
        process = processes.pop(0)
        return process, process.pipe

    monkeypatch.setattr(_Supervisor, "_start_one", start_one)
    monkeypatch.setattr(Backoff, "draw", lambda _: AT_ONCE)
    supervisor = _Supervisor(replace(Worker({Order.confirm: print})._settings, **settings), 0, Messages())
    supervisor.thread.start()
    supervisor.thread.join(WAIT)
    return supervisor


@pytest.mark.parametrize(("ends", "started"), [([1], 1), ([-9, 1], 2), ([-9, -9, -9, -9], 3)])
def test_a_process_that_is_killed_before_it_begins_is_replaced_unless_all_are(
    ends: list[int], started: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    processes = [Dead(end) for end in ends]
    supervisor = supervised(processes, monkeypatch)
    assert (supervisor.has_ended, len(ends) - len(processes)) == (True, started)
    [error] = supervisor.errors
    assert "before it began to work" in str(error)
    assert caplog.text.count("with exit code -9: a new process takes over") == started - 1
    for process in processes:
        process.pipe.close()


def test_last_words_of_a_process_are_counted(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    processes = [Dead(0, READY, Ended([Tally(succeeded=3)], None))]
    supervisor = supervised(processes, monkeypatch, until_idle=True)
    assert (supervisor.tallies, supervisor.errors, caplog.records) == ([Tally(succeeded=3)], [], [])


def test_tallies_of_a_process_and_its_replacement_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = Ended([Tally(succeeded=3)], None), Ended([Tally(succeeded=2)], SystemExit(3))
    supervisor = supervised([Dead(0, READY, end) for end in ends], monkeypatch)
    assert supervisor.tallies == [Tally(succeeded=5)]


class Orders:
    """Messages that are there already; it notes until when each was waited for."""

    def __init__(self, *messages: Message | None) -> None:
        self.left = list(messages)
        self.deadlines: list[float | None] = []

    def wait(self, deadline: float | None) -> Message | None:
        self.deadlines.append(deadline)
        return self.left.pop(0)


def test_further_orders_to_stop_do_not_lengthen_the_grace_time() -> None:
    team, orders = Mock(has_ended=False, grace=WAIT_LONG), Orders(Message.STOP, Message.STOP, Message.INTERRUPT, None)
    run_to_the_end(team, orders)  # type: ignore[arg-type]  # all that is used of them
    first, deadline, *further = orders.deadlines
    assert (first, further) == (None, [deadline] * 2)
    assert (team.stop.call_count, team.cut_short.call_count) == (1, 1)
