"""A schedule that runs what is left of a step, in place."""

import json
import signal
import sys
import threading
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from pynamodb.exceptions import UpdateError

from pynamodb_tracker import ExecutionContext, RetryLater, Tally
from pynamodb_tracker.aws_lambda import retry_handler
from pynamodb_tracker.model.row import LATEST_FORMAT
from pynamodb_tracker.query.due import DueTasks
from pynamodb_tracker.query.state_scan import StateScan
from pynamodb_tracker.testing import StoppedClock
from pynamodb_tracker.work.candidates import ClaimWindow
from tests.aws_lambda.shop import REQUEST, Broken, Context, Order, no_access, ready, states
from tests.support.rows import change
from tests.support.workers import raising

NOTHING = {**asdict(Tally()), "sent": 0, "out_of_time": False}
SCHEDULE = {"version": "0", "detail-type": "Scheduled Event", "source": "aws.events", "detail": {}}


def label(ctx: ExecutionContext[Order]) -> None:
    if ctx.task.task_id.startswith("broken"):
        raise Broken("no paper")
    ctx.task.label = f"label of {ctx.task.task_id}"


def test_it_runs_what_is_pending_failed_and_abandoned(clock: StoppedClock) -> None:
    ready("abandoned", "failed", "pending", "broken-1", "broken-2")
    Order.create("early")
    Order.ship.start("abandoned").__enter__()
    for task_id in ("failed", "broken-2"):
        with pytest.raises(Broken):
            Order.ship.run(task_id, broken)
    clock.advance(timedelta(minutes=6))
    done = retry_handler(Order.ship, label)(SCHEDULE, Context(clock))
    assert done == {**NOTHING, "succeeded": 3, "failed": 1, "ignored": 1}
    assert states("abandoned", "failed", "pending") == ["deliver pending"] * 3
    assert states("broken-1", "broken-2", "early") == ["ship failed", "ship ignored", "confirm pending"]
    assert Order.get_task("pending").worker == REQUEST


def test_a_row_of_a_later_format_is_a_warning_of_the_first_sweep_that_finds_it(
    clock: StoppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    ready("o-1", "o-2")
    change(Order, "o-1", v={"N": str(LATEST_FORMAT + 1)})
    handler = retry_handler(Order.ship, label)
    assert [handler(SCHEDULE, Context(clock))["refused"] for _ in range(3)] == [1, 1, 1]
    (record,) = [each for each in caplog.records if each.levelname in ("WARNING", "ERROR")]
    assert (record.levelname, record.__dict__["task_id"]) == ("WARNING", "o-1")
    assert "a later version of pynamodb_tracker wrote it" in record.getMessage()


def broken(_ctx: object) -> None:
    raise Broken("no paper")


def test_it_runs_the_function_that_is_bound_to_the_step(clock: StoppedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Order.ship, "function", label)
    ready("o-1")
    assert retry_handler(Order.ship)(SCHEDULE, Context(clock)) == {**NOTHING, "succeeded": 1}
    with pytest.raises(ValueError, match=r"Order\.ship does .*label, not .*broken"):
        retry_handler(Order.ship, broken)


def test_a_schedule_of_use_cases_runs_every_step_that_has_a_function_in_turns(
    clock: StoppedClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[str] = []
    for step in (Order.ship, Order.deliver):
        monkeypatch.setattr(step, "function", lambda ctx: ran.append(ctx.task.task_id))
    Order.create("waits")
    ready("s-1", "s-2", "s-3")
    Order.create("d-1", state=Order.deliver.pending)
    handler = retry_handler([Order], limit=3)

    with caplog.at_level("INFO"):
        assert handler(SCHEDULE, Context(clock)) == {**NOTHING, "succeeded": 3}
    assert ran == ["s-1", "d-1", "s-2"]
    summaries = [
        (vars(record)["step"], vars(record)["succeeded"]) for record in caplog.records if hasattr(record, "succeeded")
    ]
    assert summaries == [("ship", 2), ("deliver", 1)]


def test_states_to_select_are_those_of_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (Order.ship, Order.deliver):
        monkeypatch.setattr(step, "function", label)
    with pytest.raises(ValueError, match="states of one step"):
        retry_handler([Order], only=(Order.ship.failed,))
    retry_handler([Order.ship], only=(Order.ship.failed,))


def test_postponed_tasks_are_counted_among_failed_ones(clock: StoppedClock, capsys: pytest.CaptureFixture[str]) -> None:
    ready("o-1", "o-2", "broken")

    def wait(ctx: ExecutionContext[Order]) -> None:
        if ctx.task.task_id == "broken":
            raise ConnectionError
        raise RetryLater(timedelta(minutes=5), use_attempt=False)

    done = retry_handler(Order.ship, wait, metrics=True)(SCHEDULE, Context(clock))
    assert done == {**NOTHING, "failed": 3, "postponed": 2}
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sum(line.get("Postponed", 0) for line in lines) == 2


def test_what_is_not_due_waits(clock: StoppedClock) -> None:
    Order.create("o-1", state=Order.deliver.pending)
    with pytest.raises(Broken):
        Order.deliver.run("o-1", broken)
    again = retry_handler(Order.deliver, label)
    assert again(SCHEDULE, Context(clock)) == NOTHING
    clock.advance(timedelta(minutes=11))
    assert again(SCHEDULE, Context(clock)) == {**NOTHING, "succeeded": 1}


def test_it_begins_none_that_may_not_end_in_time(clock: StoppedClock, caplog: pytest.LogCaptureFixture) -> None:
    ready("o-1", "o-2", "o-3")
    done = retry_handler(Order.ship, lambda _ctx: clock.advance(timedelta(seconds=9)))(SCHEDULE, Context(clock, 25))
    assert done == {**NOTHING, "succeeded": 2, "out_of_time": True}
    assert sorted(states("o-1", "o-2", "o-3")) == ["deliver pending", "deliver pending", "ship pending"]
    assert "no task was started" not in caplog.text


def test_what_took_longer_than_expected_is_expected_to_take_that(clock: StoppedClock) -> None:
    ready("o-1", "o-2", "o-3", "o-4")
    done = retry_handler(Order.ship, lambda _ctx: clock.advance(timedelta(seconds=30)))(SCHEDULE, Context(clock, 110))
    assert done == {**NOTHING, "succeeded": 3, "out_of_time": True}


def test_one_task_that_hung_does_not_stop_a_schedule_of_quick_ones(clock: StoppedClock) -> None:
    ready(*[f"o-{number}" for number in range(9)])
    hung = list[str]()

    def hangs_once(ctx: ExecutionContext[Order]) -> None:
        if not hung:
            hung.append(ctx.task.task_id)
            clock.advance(timedelta(seconds=30))

    done = retry_handler(Order.ship, hangs_once)(SCHEDULE, Context(clock, 50))
    assert done == {**NOTHING, "succeeded": 9}


def test_what_is_set_as_the_time_of_a_task_is_kept_free_however_quick_the_last_ones_were(clock: StoppedClock) -> None:
    ready(*[f"o-{number}" for number in range(9)])
    sweep = retry_handler(
        Order.ship, lambda _ctx: clock.advance(timedelta(seconds=1)), time_per_task=timedelta(seconds=5)
    )
    assert sweep(SCHEDULE, Context(clock, 10)) == {**NOTHING, "succeeded": 6, "out_of_time": True}


def test_a_timeout_too_short_for_any_task_is_logged(clock: StoppedClock, caplog: pytest.LogCaptureFixture) -> None:
    ready("o-1")
    assert retry_handler(Order.ship, label)(SCHEDULE, Context(clock, 3)) == {**NOTHING, "out_of_time": True}
    assert "no task was started, because 0:00:03 was left and a task needs 0:00:10" in caplog.text


def test_the_locks_end_with_the_invocation(clock: StoppedClock) -> None:
    ready("o-1")
    ends = []
    retry_handler(Order.ship, lambda ctx: ends.append(ctx.lock_expire_time - clock.now()))(SCHEDULE, Context(clock, 42))
    assert ends == [timedelta(seconds=43)]


def test_a_limit_a_window_states_and_errors_say_which(clock: StoppedClock) -> None:
    ready("old")
    clock.advance(timedelta(days=2))
    ready("o-1", "o-2")
    for task_id, error in (("paper", "no paper"), ("ink", "no ink")):
        ready(task_id)
        with pytest.raises(Broken):
            Order.ship.run(task_id, partial(fail, error))

    def tried(**which: Any) -> set[str]:
        seen = set()

        def note(ctx: ExecutionContext[Order]) -> None:
            seen.add(ctx.task.task_id)
            raise KeyError

        retry_handler(Order.ship, note, **which)(SCHEDULE, Context(clock))
        for task_id in seen:
            Order.ship.reopen(task_id)
        return seen

    assert tried(only=(Order.ship.failed,), error_contains="INK") == {"ink"}
    assert tried(since=timedelta(days=1)) == {"o-1", "o-2", "paper", "ink"}
    assert tried(limit=1) == {"old"}


def fail(error: str, _ctx: object) -> None:
    raise Broken(error)


def test_threads_work_at_once_under_the_name_of_the_request(clock: StoppedClock) -> None:
    ready("o-1", "o-2")
    both, workers = threading.Barrier(2, timeout=60), []

    def meet(ctx: ExecutionContext[Order]) -> None:
        workers.append(ctx.task.worker)
        both.wait()

    done = retry_handler(Order.ship, meet, threads=2)(SCHEDULE, Context(clock))
    assert done == {**NOTHING, "succeeded": 2}
    assert workers == [REQUEST] * 2


def test_a_rate_spreads_the_starts_and_the_wait_is_a_part_of_the_time(clock: StoppedClock) -> None:
    ready("o-1", "o-2", "o-3")
    begun = clock.now()
    starts = []
    done = retry_handler(Order.ship, lambda _ctx: starts.append((clock.now() - begun).total_seconds()), rate=0.1)(
        SCHEDULE, Context(clock, 25)
    )
    assert starts == [0, 10]
    assert done == {**NOTHING, "succeeded": 2, "out_of_time": True}


def test_a_task_that_another_worker_has_is_refused(clock: StoppedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    ready("o-1", "o-2")
    held = Order.ship.start("o-1")
    monkeypatch.setattr(DueTasks, "ids", lambda *_: iter(["o-1", "o-2"]))  # the index lags
    with held:
        assert retry_handler(Order.ship, label)(SCHEDULE, Context(clock)) == {**NOTHING, "succeeded": 1, "refused": 1}


def test_it_counts_a_task_that_was_released_because_the_program_is_stopped(clock: StoppedClock) -> None:
    ready("o-1")
    before = signal.signal(signal.SIGTERM, raising(SystemExit))
    try:
        done = retry_handler(Order.ship, lambda _: signal.raise_signal(signal.SIGTERM))(SCHEDULE, Context(clock))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert done == {**NOTHING, "released": 1}


def test_it_logs_each_task_and_a_summary(
    clock: StoppedClock, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("INFO", "pynamodb_tracker")
    ready("o-1", "broken-1")

    retry_handler(Order.ship, label, metrics="Shop")(SCHEDULE, Context(clock))

    _, *each, last = caplog.records  # the first one is about the numbers of the steps
    assert {record.trigger for record in each} == {"schedule"}  # type: ignore[attr-defined]  # the handler sets it
    assert sorted(record.getMessage() for record in each) == [
        "ship of Order 'broken-1' (attempt 1) failed: Broken: no paper",
        "ship of Order 'o-1' (attempt 1) succeeded",
    ]
    assert last.getMessage() == "1 succeeded, 1 failed, 0 ignored, 0 refused, 0 released, 0 postponed, 0 sent"
    assert (last.succeeded, last.failed) == (1, 1)  # type: ignore[attr-defined]  # the handler sets it
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [sum(line.get(name, 0) for line in lines) for name in ("Started", "Succeeded", "Failed")] == [2, 1, 1]


def test_an_error_of_the_table_ends_the_schedule_where_no_task_could_be_tried(
    clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready("o-1", "o-2")
    start = Order.ship.start
    monkeypatch.setattr(Order.ship, "start", no_access)
    with pytest.raises(UpdateError):
        retry_handler(Order.ship, label)(SCHEDULE, Context(clock))
    monkeypatch.setattr(
        Order.ship, "start", lambda task_id, **more: no_access() if task_id == "o-1" else start(task_id, **more)
    )
    assert retry_handler(Order.ship, label)(SCHEDULE, Context(clock)) == {**NOTHING, "succeeded": 1, "refused": 1}


def test_what_cannot_be_started_does_not_use_up_the_limit(clock: StoppedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    ready("o-1", "o-2", "o-3", "o-4")
    monkeypatch.setattr(
        "pynamodb_tracker.query.due.DueTasks.ids", lambda *_: iter(["o-1", "o-2", "o-3", "o-4"])
    )  # it lags
    with Order.ship.start("o-1"), Order.ship.start("o-2"):
        done = retry_handler(Order.ship, label, limit=1)(SCHEDULE, Context(clock))
    assert (done["succeeded"], done["refused"] > 0) == (1, True)


def test_a_function_that_exits_has_failed_and_others_go_on(clock: StoppedClock) -> None:
    ready("o-1", "o-2")

    def exits(ctx: ExecutionContext[Order]) -> None:
        if ctx.task.task_id == "o-1":
            sys.exit(3)

    done = retry_handler(Order.ship, exits)(SCHEDULE, Context(clock))
    assert done == {**NOTHING, "succeeded": 1, "failed": 1}


def test_the_time_is_looked_at_while_nothing_is_found(clock: StoppedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        ready(f"o-{number:02}")
        with pytest.raises(Broken):
            Order.ship.run(f"o-{number:02}", broken)
    seen = []
    matches = DueTasks._matches

    def slowly(due: DueTasks[Any], item: Any) -> bool:
        seen.append(item)
        clock.advance(timedelta(seconds=1))
        return matches(due, item)

    monkeypatch.setattr(DueTasks, "_matches", slowly)
    done = retry_handler(Order.ship, label, error_contains="ink")(SCHEDULE, Context(clock, 20))

    assert done == {**NOTHING, "out_of_time": True}
    assert 10 <= len(seen) <= 12


def test_the_time_is_looked_at_while_locks_are_extended(clock: StoppedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        ready(f"o-{number}")
        Order.ship.start(f"o-{number}").__enter__().extend_lock(timedelta(hours=2))
    clock.advance(timedelta(hours=1))
    rows = StateScan.rows

    def slowly(scan: StateScan[Any], *arguments: Any) -> Any:
        for row in rows(scan, *arguments):
            clock.advance(timedelta(seconds=10))
            yield row

    monkeypatch.setattr(StateScan, "rows", slowly)
    begun = clock.now()
    done = retry_handler(Order.ship, label)(SCHEDULE, Context(clock, 20))

    assert done == {**NOTHING, "out_of_time": True}
    assert clock.now() - begun == timedelta(seconds=20)


def test_where_workers_meet_they_spread(clock: StoppedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    ready("o-1", "o-2")
    met = []
    answered = ClaimWindow.note_answer

    def noted(window: ClaimWindow, *, lost_to_other: bool | None) -> None:
        met.append(lost_to_other)
        answered(window, lost_to_other=lost_to_other)

    monkeypatch.setattr(ClaimWindow, "note_answer", noted)
    monkeypatch.setattr(DueTasks, "ids", lambda *_: iter(["o-1", "o-2"]))  # it lags
    with Order.ship.start("o-1"):
        retry_handler(Order.ship, label)(SCHEDULE, Context(clock))
    assert met == [True, False]
