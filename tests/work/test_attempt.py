"""One attempt to run a function on one task: what is returned, raised, kept, and what became of the task."""

import sys
import threading
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest

from pynamodb_tracker import Report, TaskNotFoundError, TrackerError
from pynamodb_tracker.execution.run import Run
from pynamodb_tracker.testing import StoppedClock
from pynamodb_tracker.work.attempt import Attempt, lost_to_other
from pynamodb_tracker.work.batch import add_to
from tests.support.engines import empty_tables, opened
from tests.support.workers import Broken, die
from tests.worker.shop import Order, ShopTask

engine, clock = opened(ShopTask, scope="module"), empty_tables

pytestmark = pytest.mark.usefixtures("clock")


def attempted(function: Any, *, task_id: str = "o-1", stopped: threading.Event | None = None) -> Attempt:
    """Return an attempt at a task after the function has run."""
    attempt = Attempt(Order.confirm._definition.codes, task_id)
    if stopped is not None:
        attempt.dispatcher = Mock(stopped=stopped)
    attempt.execute(Order.confirm.start, function)
    return attempt


def raising(error: BaseException) -> Any:
    def function(_ctx: Any) -> None:
        raise error

    return function


def test_what_the_function_returns_is_kept_with_the_success() -> None:
    Order.create("o-1")
    attempt = attempted(lambda ctx: ctx.attempt)
    assert (attempt.outcome, attempt.value, attempt.error) == ("succeeded", 1, None)


def test_an_exception_is_recorded_and_kept() -> None:
    Order.create("o-1")
    attempt = attempted(raising(Broken("it broke")))
    assert (attempt.outcome, str(attempt.error), attempt.unexpected_error) == ("failed", "it broke", None)


@pytest.mark.parametrize(("error", "outcome"), [(KeyboardInterrupt(), "released"), (SystemExit(3), "failed")])
def test_what_ends_the_program_is_recorded_kept_and_raised(error: BaseException, outcome: str) -> None:
    Order.create("o-1")
    attempt = Attempt(Order.confirm._definition.codes, "o-1")
    with pytest.raises(type(error)) as caught:
        attempt.execute(Order.confirm.start, raising(error))
    assert caught.value is attempt.error is error
    assert attempt.outcome == outcome


def test_ctrl_c_is_raised_where_nothing_has_imported_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    Order.create("o-1")
    monkeypatch.delitem(sys.modules, "asyncio")
    with pytest.raises(KeyboardInterrupt):
        attempted(raising(KeyboardInterrupt()))


def test_a_stopped_attempt_is_released_without_calling_the_function() -> None:
    Order.create("o-1")
    stopped = threading.Event()
    stopped.set()
    attempt, report = attempted(raising(Broken()), stopped=stopped), Report()
    add_to(report, attempt)
    assert (attempt.outcome, attempt.error, report) == ("released", None, Report(released=["o-1"]))
    assert Order.get_task("o-1").attempt == 0


def test_a_stopped_attempt_whose_lock_is_lost_is_refused(clock: StoppedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    Order.create("o-1")
    stopped = threading.Event()
    enter = Run.__enter__

    def slow(run: Run[Any]) -> Any:
        ctx = enter(run)
        monkeypatch.setattr(Run, "__enter__", enter)
        clock.advance(timedelta(minutes=6))
        die(Order.confirm, "o-1")
        stopped.set()
        return ctx

    monkeypatch.setattr(Run, "__enter__", slow)
    attempt = attempted(raising(Broken()), stopped=stopped)
    assert attempt.outcome == "refused"
    assert isinstance(attempt.error, TrackerError)


def test_a_task_that_another_worker_has_was_taken() -> None:
    Order.create("o-1")
    die(Order.confirm, "o-1")
    attempt, report = attempted(raising(Broken())), Report()
    add_to(report, attempt)
    assert (attempt.outcome, lost_to_other(attempt.claim_error)) == ("refused", True)
    assert report.refused == {"o-1": attempt.error}


def test_a_task_that_does_not_exist_or_is_ignored_was_not_taken() -> None:
    missing = attempted(raising(Broken()))
    assert (missing.outcome, lost_to_other(missing.claim_error), type(missing.error)) == (
        "refused",
        False,
        TaskNotFoundError,
    )
    Order.create("o-2", state=Order.confirm.ignored)
    ignored = attempted(raising(Broken()), task_id="o-2")
    assert (ignored.outcome, lost_to_other(ignored.claim_error)) == ("ignored", False)


def test_an_error_of_the_start_that_is_no_refusal_is_unexpected() -> None:
    attempt = Attempt(Order.confirm._definition.codes, "o-1")
    attempt.execute(raising(Broken()), raising(LookupError()))
    assert isinstance(attempt.unexpected_error, Broken)
    assert attempt.outcome == "refused"
