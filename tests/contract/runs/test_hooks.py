"""Hooks: when they are called, with what, and that what they do changes nothing for the task."""

# ruff: noqa: PT012 - the block that raises is what is tested, whatever it has in it

import asyncio
import gc
import logging
import os
import threading
import weakref
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, copy_context
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import (
    GiveUp,
    LockLostError,
    Repeat,
    TaskNotFoundError,
    TaskNotReadyError,
    ValueNotStorableError,
    transitions,
)
from pynamodb_tracker.clock import StoppedClock
from pynamodb_tracker.execution.run import Run
from pynamodb_tracker.instrumentation import Hook, RunDetails, add_hook
from pynamodb_tracker.model.references import MAX_TRACE_BYTES
from tests.support.engines import only_moto
from tests.support.network import unreached
from tests.support.recorder import recorded
from tests.support.shop import AppTask, Order
from tests.support.workers import Broken, die, entered, fail, succeed

pytestmark = [pytest.mark.usefixtures("table"), only_moto]  # hooks are called beside the requests

STEP = Order.confirm_payment
SECOND = timedelta(seconds=1)
INSIDE: ContextVar[str | None] = ContextVar("INSIDE", default=None)


class Diary(Hook):
    """Keeps what it was called for, in order."""

    def __init__(self, trace: Mapping[str, str] | None = None) -> None:
        self.entries: list[str] = []
        self.runs: list[RunDetails] = []
        self.left: list[type[BaseException] | None] = []
        self.trace = trace

    def on_create(self, use_case_id: str, task_id: str) -> Mapping[str, str] | None:
        self.entries.append(f"create {use_case_id} {task_id}")
        return self.trace

    def on_start(self, run: RunDetails) -> AbstractContextManager[None]:
        self.entries.append(f"start {run.task_id}")
        self.runs.append(run)
        return self._around()

    @contextmanager
    def _around(self) -> Iterator[None]:
        token = INSIDE.set("block")
        kind: type[BaseException] | None = None
        try:
            yield
        except BaseException as error:
            kind = type(error)
            raise
        finally:
            INSIDE.reset(token)
            self.left.append(kind)
            self.entries.append("left")

    def on_end(self, run: RunDetails) -> None:
        self.entries.append(f"end {run.outcome}")

    def on_refuse(self, run: RunDetails) -> None:
        self.runs.append(run)
        self.entries.append(f"refuse {run.outcome} {type(run.error).__name__}")

    def on_lock_lost(self, run: RunDetails, error: Exception) -> None:
        self.entries.append(f"lost {run.task_id} {type(error).__name__}")


@pytest.fixture
def hooked() -> Iterator[Callable[[Hook], Callable[[], None]]]:
    removals = list[Callable[[], None]]()

    def add(hook: Hook) -> Callable[[], None]:
        removals.append(add_hook(hook))
        return removals[-1]

    yield add
    for remove in removals:
        remove()
    INSIDE.set(None)  # a worker that died has not left its block


@pytest.fixture
def diary(hooked: Callable[[Hook], object]) -> Diary:
    diary = Diary()
    hooked(diary)
    return diary


def test_a_success_is_created_started_ended_and_left(diary: Diary, clock: StoppedClock) -> None:
    Order.create("o-1")
    with STEP.start("o-1"):
        assert INSIDE.get() == "block"
        begin = clock.now()
        clock.advance(SECOND)
    assert INSIDE.get() is None
    assert diary.entries == ["create order o-1", "start o-1", "end succeeded", "left"]
    (run,) = diary.runs
    assert (run.use_case_id, run.step, run.task_id) == ("order", "confirm_payment", "o-1")
    assert (run.attempt, run.fence, run.took_over, run.error) == (1, 1, False, None)
    assert (run.start_time, run.duration, run.task.state) == (begin, SECOND, STEP.succeeded)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(Broken(), "failed"), (GiveUp("no such address"), "ignored"), (KeyboardInterrupt(), "released")],
    ids=["failed", "ignored", "released"],
)
def test_a_run_that_fails_ends_with_its_error(diary: Diary, error: BaseException, outcome: str) -> None:
    Order.create("o-1")
    fail(STEP, "o-1", error)
    assert diary.entries[1:] == ["start o-1", f"end {outcome}", "left"]
    assert (diary.runs[0].error, diary.left) == (error, [type(error)])


def test_an_error_that_is_skipped_is_still_that_of_the_run(diary: Diary) -> None:
    Order.create("o-1")
    with STEP.start("o-1", skip_error=True):
        raise Broken
    assert (diary.entries[-2], type(diary.runs[0].error)) == ("end failed", Broken)


def test_a_success_that_cannot_be_stored_ends_as_the_failure_that_it_is(diary: Diary) -> None:
    Order.create("o-1")
    with pytest.raises(ValueNotStorableError) as caught, STEP.start("o-1") as ctx:
        ctx.task.amount = float("nan")
    assert (diary.entries[-2], diary.runs[0].error, diary.left) == (
        "end ignored",
        caught.value,
        [ValueNotStorableError],
    )


def test_a_success_in_a_transaction_is_the_outcome_whatever_the_block_raises_later(diary: Diary) -> None:
    Order.create("o-1")
    with pytest.raises(Broken), STEP.start("o-1") as ctx:
        with ctx.transaction(succeed=True):
            pass
        raise Broken
    assert (diary.entries[1:], type(diary.runs[0].error)) == (["start o-1", "end succeeded", "left"], Broken)


def test_a_refused_run_has_no_start_and_no_end(diary: Diary) -> None:
    with pytest.raises(TaskNotFoundError), STEP.start("nobody"):
        pass
    assert diary.entries == ["refuse refused TaskNotFoundError"]
    assert (diary.runs[0].attempt, diary.runs[0].task) == (None, None)


def test_a_run_that_takes_over_from_a_dead_worker_says_so(diary: Diary, clock: StoppedClock) -> None:
    Order.create("o-1")
    copy_context().run(die, STEP, "o-1")
    clock.advance(timedelta(minutes=6))
    succeed(STEP, "o-1")
    fail(Order.ship, "o-1")
    assert [run.took_over for run in diary.runs] == [False, True, False]


@pytest.mark.parametrize("finds", ["save", "extend_lock", "end"])
def test_a_lost_lock_is_reported_once_by_the_first_that_finds_out(
    diary: Diary, finds: str, clock: StoppedClock
) -> None:
    Order.create("o-1")
    with pytest.raises(LockLostError), STEP.start("o-1") as ctx:
        clock.advance(timedelta(minutes=6))
        copy_context().run(die, STEP, "o-1")
        ctx.task.amount = 1
        if finds != "end":
            getattr(ctx, finds)()
    assert diary.entries[3:] == ["lost o-1 LockLostError", "end refused", "left"]


def test_a_run_that_is_given_back_ends_once_and_is_left_where_its_block_ends(diary: Diary) -> None:
    Order.create("o-1")
    run = STEP.start("o-1")
    assert isinstance(run, Run)
    with pytest.raises(LockLostError), run:
        other = threading.Thread(target=run.give_back)
        other.start()
        other.join()
        assert (diary.entries[1:], INSIDE.get()) == (["start o-1", "end released"], "block")
    assert (diary.entries[1:], INSIDE.get()) == (["start o-1", "end released", "left"], None)


def test_an_interrupt_while_hooks_are_called_releases_the_task_and_leaves_what_was_entered(
    diary: Diary, hooked: Callable[[Hook], object]
) -> None:
    class Interrupted(Hook):
        def on_start(self, run: RunDetails) -> None:  # noqa: ARG002
            raise KeyboardInterrupt

    hooked(Interrupted())
    Order.create("o-1")
    with pytest.raises(KeyboardInterrupt), STEP.start("o-1"):
        pytest.fail("the block ran")
    assert diary.entries[1:] == ["start o-1", "end released", "left"]
    task = Order.get_task("o-1")
    assert (task.state, task.attempt) == (STEP.pending, 0)


class Raising(Hook):
    """Raises whenever it is called; what it has entered raises, too."""

    def __init__(self, *, late: bool) -> None:
        self.late = late

    def on_create(self, use_case_id: str, task_id: str) -> Mapping[str, str]:  # noqa: ARG002
        raise Broken("create")

    def on_start(self, run: RunDetails) -> AbstractContextManager[None]:  # noqa: ARG002
        if self.late:
            return self._around()
        raise Broken("start")

    @contextmanager
    def _around(self) -> Iterator[None]:
        try:
            yield
        finally:
            raise Broken("leave")

    def on_end(self, run: RunDetails) -> None:  # noqa: ARG002
        raise Broken("end")

    def on_refuse(self, run: RunDetails) -> None:  # noqa: ARG002
        raise Broken("refuse")

    def on_lock_lost(self, run: RunDetails, error: Exception) -> None:  # noqa: ARG002
        raise Broken("lost")


@pytest.mark.parametrize("raising", [Raising(late=False), Raising(late=True)], ids=["on_start", "its-context-manager"])
def test_what_a_hook_raises_is_logged_and_changes_nothing(
    hooked: Callable[[Hook], object], diary: Diary, raising: Raising, caplog: pytest.LogCaptureFixture
) -> None:
    hooked(raising)
    Order.create("o-1")
    with STEP.start("o-1") as ctx:
        ctx.task.amount = 1
    with pytest.raises(TaskNotFoundError), STEP.start("nobody"):
        pass
    with pytest.raises(LockLostError), Order.ship.start("o-1"):
        Order.ship.ignore("o-1", reason="stuck", even_running=True)
    assert [entry.split()[0] for entry in diary.entries] == [
        "create", "start", "end", "left", "refuse", "start", "lost", "end", "left",
    ]  # fmt: skip
    raised = [record.exc_info[1] for record in caplog.records if record.levelno == logging.ERROR and record.exc_info]
    around = "leave" if raising.late else "start"
    assert sorted(map(str, raised)) == sorted(["create", "refuse", "lost", *2 * ["end", around]])


def test_a_hook_cannot_suppress_the_error_of_the_block(hooked: Callable[[Hook], object]) -> None:
    class Silent(Hook):
        def on_start(self, run: RunDetails) -> AbstractContextManager[object]:  # noqa: ARG002
            class Around(AbstractContextManager[None]):
                def __exit__(self, *_: object) -> bool:
                    return True

            return Around()

    hooked(Silent())
    Order.create("o-1")
    fail(STEP, "o-1")


def test_an_error_that_is_falsy_is_that_with_which_a_hook_is_left(hooked: Callable[[Hook], object]) -> None:
    left: list[object] = []

    class Problems(Exception):  # noqa: N818 - a user's own
        def __len__(self) -> int:
            return 0

    class Leaving(Hook):
        def on_start(self, run: RunDetails) -> AbstractContextManager[object]:  # noqa: ARG002
            class Around(AbstractContextManager[None]):
                def __exit__(self, *error: object) -> None:
                    left.extend(error)

            return Around()

    hooked(Leaving())
    Order.create("o-1")
    error = Problems()
    with pytest.raises(Problems), STEP.start("o-1"):
        raise error
    assert left[:2] == [Problems, error]


def test_a_run_keeps_the_hooks_with_which_it_began(hooked: Callable[[Hook], Callable[[], None]]) -> None:
    first, second = Diary(), Diary()
    remove = hooked(first)
    Order.create("o-1")
    with STEP.start("o-1"):
        remove()
        hooked(second)
    assert (first.entries[-2:], second.entries) == (["end succeeded", "left"], [])
    succeed(Order.ship, "o-1")
    assert (len(first.entries), second.entries[0]) == (4, "start o-1")


def test_an_interrupt_of_one_hook_keeps_no_other_from_hearing_of_the_end(hooked: Callable[[Hook], object]) -> None:
    class Interrupted(Hook):
        def on_end(self, run: RunDetails) -> None:  # noqa: ARG002
            raise KeyboardInterrupt

    diary = Diary()
    hooked(Interrupted())
    hooked(diary)
    Order.create("o-1")
    with pytest.raises(KeyboardInterrupt), STEP.start("o-1"):
        pass
    assert diary.entries[1:] == ["start o-1", "end succeeded", "left"]


@pytest.mark.parametrize("stops", ["interrupt", "give_back"])
def test_a_hook_that_has_heard_of_no_start_hears_of_a_refusal_and_of_no_end(
    diary: Diary, hooked: Callable[[Hook], object], stops: str
) -> None:
    class Stopping(Hook):
        def on_start(self, run: RunDetails) -> None:  # noqa: ARG002
            if stops == "interrupt":
                raise KeyboardInterrupt
            threaded(started.give_back)

    later = Diary()
    hooked(Stopping())
    hooked(later)
    Order.create("o-1")
    started: Any = STEP.start("o-1")
    with pytest.raises((KeyboardInterrupt, LockLostError)), started:
        pass
    assert diary.entries[1:] == ["start o-1", "end released", "left"]
    error = "KeyboardInterrupt"
    assert (later.entries[1:], INSIDE.get()) == ([f"refuse released {error}"], None)


def threaded(function: Callable[[], object]) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def test_a_block_that_ends_while_its_task_is_given_back_ends_once(
    diary: Diary, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = transitions.release
    entered, ending = threading.Event(), threading.Event()

    def block() -> None:
        with pytest.raises(LockLostError), run:
            entered.set()
            assert ending.wait(60)

    def ended_meanwhile(lock: Any) -> None:
        ending.set()
        thread.join()
        release(lock)

    monkeypatch.setattr(transitions, "release", ended_meanwhile)
    Order.create("o-1")
    run: Any = STEP.start("o-1")
    thread = threading.Thread(target=block)
    thread.start()
    assert entered.wait(60)
    assert run.give_back()
    assert diary.entries[1:] == ["start o-1", "left", "end released"]


def test_an_async_run_that_does_not_start_leaves_what_was_entered_in_its_own_context(
    diary: Diary, hooked: Callable[[Hook], object], caplog: pytest.LogCaptureFixture
) -> None:
    class Stop(BaseException):
        pass

    class Stopping(Hook):
        def on_start(self, run: RunDetails) -> None:  # noqa: ARG002
            raise Stop

    async def start() -> None:
        async with STEP.astart("o-1"):
            pytest.fail("the block ran")

    hooked(Stopping())
    Order.create("o-1")
    with pytest.raises(Stop):
        asyncio.run(start())
    assert diary.entries[1:] == ["start o-1", "end released", "left"]
    assert caplog.records == []  # a token of a context variable is of use in its own context only


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # the child starts no thread
def test_a_process_that_was_forked_in_the_block_calls_no_hook_at_its_end(diary: Diary) -> None:
    Order.create("o-1")
    run = entered(STEP, "o-1")
    if (child := os.fork()) == 0:
        run.__exit__(None, None, None)
        os._exit(len(diary.entries))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2  # the creation and the start
    run.__exit__(None, None, None)
    assert diary.entries[1:] == ["start o-1", "end succeeded", "left"]


def test_a_run_that_is_entered_again_after_a_refusal_calls_each_hook_once(diary: Diary) -> None:
    run: Any = STEP.start("o-1")
    with pytest.raises(TaskNotFoundError):
        run.__enter__()
    Order.create("o-1")
    with run:
        pass
    assert diary.entries == [
        "refuse refused TaskNotFoundError",
        "create order o-1",
        "start o-1",
        "end succeeded",
        "left",
    ]


@pytest.mark.usefixtures("diary")
def test_a_run_with_hooks_is_freed_without_the_garbage_collector() -> None:
    Order.create("o-1")
    gc.disable()
    try:
        with STEP.start("o-1") as ctx:
            row = weakref.ref(ctx._journal)
        del ctx
        assert row() is None
    finally:
        gc.enable()


def test_only_a_hook_can_be_added_and_only_once(diary: Diary) -> None:
    with pytest.raises(ValueError, match="was already added"):
        add_hook(diary)
    with pytest.raises(TypeError, match="an instance of your subclass of Hook"):
        add_hook(Diary)  # type: ignore[arg-type]


class AsyncHook(Hook):
    async def on_end(self, run: RunDetails) -> None:  # type: ignore[override]  # that is the mistake
        pass


class GeneratorHook(Hook):
    def on_start(self, run: RunDetails) -> Iterator[None]:  # type: ignore[override]  # noqa: ARG002 - as above
        yield


@pytest.mark.parametrize(("kind", "name"), [(AsyncHook, "on_end"), (GeneratorHook, "on_start")])
def test_a_method_whose_body_would_not_run_is_refused(kind: type[Hook], name: str) -> None:
    with pytest.raises(TypeError, match=f"{name} of .* must be a plain function"):
        add_hook(kind())


def test_hooks_send_no_request(diary: Diary) -> None:
    with recorded(AppTask) as requests:
        Order.create("o-1")
        succeed(STEP, "o-1")
    assert [request.operation for request in requests] == ["PutItem", "UpdateItem", "UpdateItem"]
    assert len(diary.entries) == 4


def test_what_on_create_returns_is_kept_in_the_trace_unless_the_creator_says_otherwise(
    hooked: Callable[[Hook], object],
) -> None:
    hooked(Diary({"traceparent": "00-hook", "baggage": "b"}))
    hooked(Diary())
    assert Order.create("o-1").trace == {"traceparent": "00-hook", "baggage": "b"}
    own = {"traceparent": "00-own"}  # what the hook returns belongs together, and is left out as a whole
    assert Order.create("o-2", trace=own).trace == own
    assert Order.create_or_merge("o-3").task.trace == {"traceparent": "00-hook", "baggage": "b"}
    assert Order.create_many(["o-4"]).succeeded == ["o-4"]
    assert Order.get_task("o-4").trace == {"traceparent": "00-hook", "baggage": "b"}


def test_a_follow_up_has_the_entries_of_hooks_over_those_of_its_creator(hooked: Callable[[Hook], object]) -> None:
    Order.create("o-1", trace={"traceparent": "00-first", "customer": "c-1"})
    hooked(Diary({"traceparent": "00-hook"}))
    with STEP.start("o-1") as ctx:
        ctx.create(Order, "o-2")
        ctx.create(Order, "o-3", trace={"traceparent": "00-own"})
    by = "order/o-1/confirm_payment/1"
    assert Order.get_task("o-2").trace == {"traceparent": "00-hook", "customer": "c-1", "by": by}
    assert Order.get_task("o-3").trace == {"traceparent": "00-own", "by": by}


class Torn(UserDict[str, str]):
    def __iter__(self) -> Iterator[str]:
        raise Broken


@pytest.mark.parametrize(
    "trace", [{"t": "x" * MAX_TRACE_BYTES}, {"t": 1}, ["t"], Torn()], ids=["large", "number", "list", "torn"]
)
def test_entries_of_a_hook_that_cannot_be_stored_are_left_out_and_logged(
    hooked: Callable[[Hook], object], trace: Any, caplog: pytest.LogCaptureFixture
) -> None:
    hooked(Diary(trace))
    assert Order.create("o-1", trace={"mine": "1"}).trace == {"mine": "1"}
    assert Order.create("o-2").trace is None
    assert len(caplog.records) == 2


def test_a_trace_that_is_refused_is_refused_before_any_hook_is_called(diary: Diary) -> None:
    with unreached(), pytest.raises(TypeError, match="trace must map text to text"):
        Order.create("o-1", trace={"traceparent": 1})  # type: ignore[dict-item]
    assert diary.entries == []


@pytest.mark.parametrize("dies", [False, True], ids=["by its last failure", "by its last worker"])
def test_a_hook_learns_that_an_occurrence_was_given_up(diary: Diary, clock: StoppedClock, *, dies: bool) -> None:
    Order.create("o-1", repeat=Repeat.every(timedelta(days=1)))
    for _ in range(STEP.max_attempts - 1):
        fail(STEP, "o-1")
    if dies:
        die(STEP, "o-1")
        clock.advance(timedelta(hours=1))
        with pytest.raises(TaskNotReadyError):
            succeed(STEP, "o-1")
    else:
        fail(STEP, "o-1")
    with pytest.raises(TaskNotReadyError):
        succeed(STEP, "o-1")
    assert [run.skipped_occurrence for run in diary.runs][-2:] == [True, False]
