"""How a worker ends: in order, by signals and by `stop`, and what becomes of a function that still runs."""

import asyncio
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import AsyncWorker, ExecutionContext, LockLostError, Tally, Worker, clock, transitions
from pynamodb_tracker.execution.run import Run
from pynamodb_tracker.testing import StoppedClock
from pynamodb_tracker.work import executor
from pynamodb_tracker.work.attempt import Attempt
from pynamodb_tracker.work.dispatcher import Dispatcher
from pynamodb_tracker.worker.shutdown import Message, Messages
from tests.support.network import Network, error, passing
from tests.support.paced_clock import StandingClock
from tests.support.processes import until
from tests.support.workers import raising
from tests.worker.shop import Order

pytestmark = pytest.mark.usefixtures("shop")

AT_ONCE = timedelta(0)
WAIT = 30.0
posix = pytest.mark.skipif(os.name == "nt", reason="POSIX signals")

Ctx = ExecutionContext[Order]


class Hanging:
    """A function that hangs until it is let go, and tells what came of it then."""

    def __init__(self, then: Callable[[Ctx], object] = lambda _: None) -> None:
        self.inside = threading.Event()
        self.go = threading.Event()
        self.after: BaseException | None = None
        self.ctx: Ctx | None = None
        self.has_ended = threading.Event()
        self._then = then

    def __call__(self, ctx: Ctx) -> None:
        self.ctx = ctx
        self.inside.set()
        assert self.go.wait(WAIT)
        try:
            self._then(ctx)
        except BaseException as error:
            self.after = error
            raise
        finally:
            self.has_ended.set()


@contextmanager
def hung(function: Hanging, **options: Any) -> Iterator[Worker]:
    """Let a worker run the function, and yield it once the function hangs."""
    worker = Worker({Order.confirm: function}, **options)
    run = threading.Thread(target=worker.run)
    run.start()
    try:
        assert function.inside.wait(WAIT)
        yield worker
        run.join(WAIT)
        assert not run.is_alive()
    finally:
        worker.stop()
        function.go.set()
        run.join(WAIT)
        for thread in threading.enumerate():
            if thread.name.startswith("pynamodb_tracker worker"):
                thread.join(WAIT)


@pytest.fixture
def stopping(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Return what is set once a worker has heard that it is to stop."""
    event, stop = threading.Event(), Dispatcher.stop

    def stop_and_say(dispatcher: Dispatcher) -> None:
        stop(dispatcher)
        event.set()

    monkeypatch.setattr(Dispatcher, "stop", stop_and_say)
    return event


# On threads and on an event loop.

both = pytest.mark.parametrize("kind", [Worker, AsyncWorker])


def worker_of(kind: Any, function: Callable[[Any], object]) -> Any:
    async def on_loop(ctx: Any) -> None:
        function(ctx)

    return Worker({Order.confirm: function}) if kind is Worker else AsyncWorker({Order.confirm: on_loop}, concurrency=1)


def run_worker(worker: Any) -> Any:
    ended = worker.run()
    return ended if isinstance(worker, Worker) else asyncio.run(asyncio.wait_for(ended, WAIT))


@both
def test_stop_lets_what_runs_finish_and_starts_nothing_more(kind: Any) -> None:
    worker = worker_of(kind, lambda _: worker.stop())
    Order.create_many(["o-1", "o-2"])
    tallies = run_worker(worker)
    # One more may have been claimed before the order was heard.
    assert tallies[Order.confirm].succeeded + Order.confirm.pending.count() == 2
    assert Order.confirm.in_progress.count() == 0
    worker.stop()  # once more: there is nothing to stop


@both
def test_a_worker_that_was_stopped_before_it_runs_starts_nothing_and_it_runs_once(kind: Any) -> None:
    Order.create("o-1")
    worker = worker_of(kind, Hanging())
    worker.stop()
    assert run_worker(worker) == {Order.confirm: Tally()}
    with pytest.raises(RuntimeError, match="was run before: create a new one"):
        run_worker(worker)
    assert Order.get_task("o-1").fence == 0


@both
def test_nothing_is_claimed_of_what_was_found_before_the_stop(
    kind: Any, monkeypatch: pytest.MonkeyPatch, stopping: threading.Event
) -> None:
    take = Dispatcher.take

    def found_and_stopped(dispatcher: Dispatcher) -> Any:
        found = take(dispatcher)
        worker.stop()
        assert stopping.wait(WAIT)
        return found

    monkeypatch.setattr(Dispatcher, "take", found_and_stopped)
    Order.create("o-1")
    worker = worker_of(kind, Hanging())
    assert run_worker(worker) == {Order.confirm: Tally()}
    assert Order.get_task("o-1").fence == 0


@both
def test_a_task_that_is_being_claimed_when_the_worker_stops_is_given_back_untouched(
    kind: Any, monkeypatch: pytest.MonkeyPatch, stopping: threading.Event
) -> None:
    ran: list[str] = []
    claim = Run.claim

    def stopped_meanwhile(run: Run[Any]) -> Any:
        worker.stop()
        assert stopping.wait(WAIT)
        return claim(run)

    Order.create("o-1")
    monkeypatch.setattr(Run, "claim", stopped_meanwhile)
    worker = worker_of(kind, lambda ctx: ran.append(ctx.task.task_id))
    assert run_worker(worker) == {Order.confirm: Tally(released=1)}
    task = Order.get_task("o-1")
    assert (task.state, task.attempt, ran) == (Order.confirm.pending, 0, [])


@both
@pytest.mark.parametrize(
    ("order", "state"), [(SystemExit(3), Order.confirm.failed), (KeyboardInterrupt(), Order.confirm.pending)]
)
def test_sys_exit_and_ctrl_c_in_a_function_are_recorded_stop_the_worker_and_are_raised(
    kind: Any, order: BaseException, state: Any, shop: StoppedClock
) -> None:
    Order.create("o-1")
    shop.advance(timedelta(seconds=10))
    Order.create("o-2")
    with pytest.raises(type(order)) as caught:
        run_worker(worker_of(kind, raising(order)))
    assert caught.value is order
    assert Order.get_task("o-1").state == state
    assert Order.get_task("o-2").fence == 0


# On threads.


def test_a_task_that_is_being_claimed_at_the_end_of_the_grace_time_is_given_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cutting = threading.Event()
    give_back, enter = Attempt.give_back, Run.__enter__

    def now_cut(attempt: Attempt, seconds: float) -> None:
        cutting.set()
        give_back(attempt, seconds)

    def slow(run: Run[Any]) -> Any:
        worker.stop()
        assert cutting.wait(WAIT)
        return enter(run)

    monkeypatch.setattr(Attempt, "give_back", now_cut)
    monkeypatch.setattr(Run, "__enter__", slow)
    Order.create("o-1")
    worker = Worker({Order.confirm: Hanging()}, grace=AT_ONCE)
    assert worker.run() == {Order.confirm: Tally(released=1)}
    assert Order.get_task("o-1").state == Order.confirm.pending
    assert "still ran" not in caplog.text


@pytest.mark.parametrize("stopped_first", [False, True])
def test_a_run_that_a_person_has_cancelled_is_not_waited_for(stopping: threading.Event, *, stopped_first: bool) -> None:
    Order.create("o-1")
    function = Hanging()
    worker = Worker({Order.confirm: function}, grace=timedelta(hours=1))
    run = threading.Thread(target=worker.run)
    run.start()
    try:
        assert function.inside.wait(WAIT)
        if stopped_first:
            worker.stop()
            assert stopping.wait(WAIT)
        Order.confirm.ignore("o-1", reason="cancelled", even_running=True)
        assert function.ctx is not None
        with pytest.raises(LockLostError):
            function.ctx.extend_lock()
        worker.stop()
        run.join(WAIT / 2)
        assert not run.is_alive()
    finally:
        function.go.set()
        assert function.has_ended.wait(WAIT)
    assert Order.get_task("o-1").state == Order.confirm.ignored


def test_a_task_that_was_given_back_can_be_taken_at_once_and_its_first_run_records_nothing() -> None:
    Order.create("o-1")
    function = Hanging(lambda ctx: setattr(ctx.task, "note", "by the one that hung"))
    with hung(function, grace=AT_ONCE) as worker:
        worker.stop()
        until(lambda: Order.get_task("o-1").state == Order.confirm.pending)
        with Order.confirm.start("o-1") as ctx:
            ctx.task.note = "by the next one"
            function.go.set()
            assert function.has_ended.wait(WAIT)
    task = Order.get_task("o-1")
    assert (task.state, task.note, task.fence) == (Order.ship.pending, "by the next one", 2)


def test_what_still_runs_after_the_grace_time_is_given_back_and_its_success_is_not_recorded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    Order.create("o-1")
    function = Hanging()
    with hung(function, grace=AT_ONCE) as worker:
        worker.stop()
        until(lambda: Order.get_task("o-1").state == Order.confirm.pending)
        function.go.set()
        assert function.has_ended.wait(WAIT)
    task = Order.get_task("o-1")
    assert (task.state, task.attempt) == (Order.confirm.pending, 0)
    assert "Order.confirm of 'o-1' (attempt 1) still ran after the grace time and was released" in caplog.text


def test_a_block_that_ends_while_its_task_is_given_back_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row looks as if the run had ended well: its lock is there, and its fence is not among the unfinished."""
    release = transitions.release

    def ended_meanwhile(lock: Any) -> None:
        release(lock)
        with pytest.raises(LockLostError, match="was released"):
            run.__exit__(None, None, None)

    monkeypatch.setattr(transitions, "release", ended_meanwhile)
    Order.create("o-1")
    run: Any = Order.confirm.start("o-1")
    run.__enter__()
    assert run.give_back()
    assert not run.give_back()
    assert Order.get_task("o-1").state == Order.confirm.pending


@pytest.mark.parametrize("order", ["save", "extend_lock", "transaction"])
def test_a_function_whose_task_was_given_back_finds_that_its_lock_is_lost(order: str) -> None:
    def go_on(ctx: Ctx) -> None:
        assert ctx.lock_lost
        ctx.task.note = "too late"
        getattr(ctx, order)()

    Order.create("o-1")
    function = Hanging(go_on)
    with hung(function, grace=AT_ONCE) as worker:
        worker.stop()
        until(lambda: function.ctx is not None and function.ctx.lock_lost)
        function.go.set()
        assert function.has_ended.wait(WAIT)
    assert isinstance(function.after, LockLostError)
    assert Order.get_task("o-1").note is None


def test_a_task_whose_success_is_promised_to_a_transaction_keeps_its_lock(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(executor, "GIVE_BACK_WITHIN", 0.05)
    Order.create("o-1")

    def commit(ctx: Ctx) -> None:
        with ctx.transaction(succeed=True):
            promised.set()
            assert commits.wait(WAIT)

    promised, commits = threading.Event(), threading.Event()
    function = Hanging(commit)
    function.go.set()
    with hung(function, grace=AT_ONCE) as worker:
        assert promised.wait(WAIT)
        worker.stop()
        until(lambda: "stays locked until its lock expires" in caplog.text)
        assert Order.get_task("o-1").state == Order.confirm.in_progress
        commits.set()
        assert function.has_ended.wait(WAIT)
    assert Order.get_task("o-1").state == Order.ship.pending


def test_a_task_that_is_given_back_just_as_its_block_opens_a_transaction_is_left_to_that() -> None:
    opened: list[Any] = []

    class Meeting(transitions.Journal[Order]):
        def __setattr__(self, name: str, value: object) -> None:
            if name == "ended" and not opened:
                opened.append(ctx.transaction(succeed=True))
            super().__setattr__(name, value)

    Order.create("o-1")
    run: Any = Order.confirm.start("o-1", heartbeat=True)
    with run as ctx:
        run.journal.__class__ = Meeting
        assert not run.give_back()
        assert run.heartbeat._thread.is_alive()
        with opened[0]:
            ctx.task.note = "booked"
    assert Order.get_task("o-1").note == "booked"


def test_a_release_that_gets_no_answer_does_not_keep_the_worker_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    never = threading.Event()
    monkeypatch.setattr(executor, "GIVE_BACK_WITHIN", 0.05)
    monkeypatch.setattr(Run, "give_back", lambda _: never.wait(WAIT) and False)
    Order.create("o-1")
    with hung(Hanging(), grace=AT_ONCE) as worker:
        worker.stop()
    assert not never.is_set()
    never.set()


@posix
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_gracefully(number: signal.Signals) -> None:
    Order.create("o-1")
    tallies = Worker({Order.confirm: lambda _: os.kill(os.getpid(), number)}).run()
    assert tallies[Order.confirm] == Tally(succeeded=1)


@posix
def test_a_second_ctrl_c_ends_it_at_once(stopping: threading.Event) -> None:
    function = Hanging()

    def interrupted_twice(ctx: Ctx) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        assert stopping.wait(WAIT)
        os.kill(os.getpid(), signal.SIGTERM)  # a machine that repeats itself is not in a hurry
        os.kill(os.getpid(), signal.SIGINT)
        function(ctx)

    Order.create("o-1")
    worker = Worker({Order.confirm: interrupted_twice}, grace=timedelta(days=1))
    with pytest.raises(KeyboardInterrupt):
        worker.run()
    assert Order.get_task("o-1").state == Order.confirm.in_progress
    function.go.set()
    until(lambda: Order.get_task("o-1").state == Order.ship.pending)


@posix
def test_sigusr1_prints_what_runs_and_what_was_done(capfd: pytest.CaptureFixture[str], shop: StoppedClock) -> None:
    err: list[str] = []

    def is_told() -> bool:
        err.append(capfd.readouterr().err)
        return "next poll" in "".join(err)

    def work(ctx: Ctx) -> None:
        if ctx.task.task_id == "o-2":
            shop.advance(timedelta(seconds=12.3))
            os.kill(os.getpid(), signal.SIGUSR1)
            until(is_told)

    Order.create("o-1")
    shop.advance(timedelta(seconds=1))
    Order.create("o-2")
    Worker({Order.confirm: work}, threads=1).run(until_idle=True)
    first, *lines = "".join(err).splitlines()
    assert first.startswith("worker ")
    assert re.fullmatch(rf"worker .+:{os.getpid()}:\w{{4}}: 1 of 1 threads are busy", first)
    assert lines == [
        "  Order.confirm of 'o-2' (attempt 1): 12.3 s",
        "  Order.confirm: 1 succeeded, 0 failed, 0 ignored, 0 refused, 0 released; next poll now",
    ]


THREADS = 25


@pytest.mark.parametrize("stop", ["the grace time is over", "a second interrupt"])
def test_a_pool_whose_role_was_taken_away_ends_when_it_is_stopped(
    network: Network, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, stop: str
) -> None:
    Order.create_many([f"o-{number}" for number in range(THREADS)])
    ended, denied = threading.Barrier(THREADS, timeout=WAIT), threading.Semaphore(0)

    def rule(operation: str, _request: Any, send: Callable[[], Any]) -> Any:
        if operation == "Query":
            return send()
        denied.release()
        raise error(operation, "AccessDeniedException")

    def work(_: Ctx) -> None:
        ended.wait()
        network.rule = rule

    messages = Messages()
    monkeypatch.setattr("pynamodb_tracker.worker.worker.Messages", lambda: messages)
    worker = Worker({Order.confirm: work}, threads=THREADS, grace=AT_ONCE if "grace" in stop else timedelta(hours=1))
    raised: list[BaseException] = []

    def run() -> None:
        try:
            worker.run()
        except KeyboardInterrupt as interrupt:
            raised.append(interrupt)

    before = clock.use(StandingClock())
    thread = threading.Thread(target=run)
    try:
        thread.start()
        for _ in range(10 * THREADS):
            assert denied.acquire(timeout=WAIT)
        if "grace" in stop:
            worker.stop()
        else:
            messages.put(Message.INTERRUPT)
            messages.put(Message.INTERRUPT)
        thread.join(WAIT)
        assert not thread.is_alive()
        for each in threading.enumerate():
            if each.name.startswith("pynamodb_tracker worker"):
                each.join(WAIT)
                assert not each.is_alive()
    finally:
        network.rule = passing
        clock.use(before)
    assert len(raised) == ("interrupt" in stop)
    unrecorded = [text for text in caplog.messages if "was done, but its success was not recorded" in text]
    assert len(unrecorded) == THREADS
    assert Order.confirm.in_progress.count() == THREADS
