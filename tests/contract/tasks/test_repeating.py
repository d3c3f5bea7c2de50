"""Repeating: a task is due again at the next occurrence of its rule, whatever became of the last one."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pynamodb.attributes import UnicodeAttribute

from pynamodb_tracker import (
    ExecutionContext,
    GiveUp,
    Repeat,
    Step,
    TaskAlreadyExistsError,
    TaskIgnoredError,
    TaskNotReadyError,
    UseCase,
)
from pynamodb_tracker.clock import StoppedClock, stamp
from pynamodb_tracker.exceptions import TaskError, TaskFormatError
from pynamodb_tracker.model.repeat import LastRun
from pynamodb_tracker.model.worker_name import this_worker
from tests.support.recorder import recorded
from tests.support.rows import change, index_entries, stored
from tests.support.shop import AppTask
from tests.support.workers import Broken, die, fail, succeed

pytestmark = pytest.mark.usefixtures("table")

HOUR, DAY, MINUTE = timedelta(hours=1), timedelta(days=1), timedelta(minutes=1)
NIGHTLY = Repeat.cron("0 2 * * *", tz="Europe/Berlin")


class Report(AppTask):
    # dynoxide deletes what has expired by the real time, which is after the stopped one.
    use_case_id = UseCase("repeated report", keep_for=36_000 * DAY, keep_ignored_for=36_000 * DAY)

    collect = Step(10, max_attempts=2)
    send = Step(20, max_attempts=2)

    note = UnicodeAttribute(null=True)


class Sweep(AppTask):
    use_case_id = UseCase("repeated sweep")

    run = Step(10, max_attempts=2)


@pytest.fixture(autouse=True)
def monday(clock: StoppedClock) -> datetime:
    """Let it be noon on a Monday in winter, when 02:00 in Berlin is 01:00 in UTC."""
    noon = datetime(2026, 11, 23, 12, tzinfo=UTC)
    clock.advance(noon - clock.now())
    return noon


def until(clock: StoppedClock, time: datetime) -> None:
    clock.advance(time - clock.now())


def tuesday(hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 11, 24, hour, minute, tzinfo=UTC)


def run(task_id: str = "s-1") -> datetime | None:
    """Run the only step of a sweep, and return for which time it ran."""
    return Sweep.run.run(task_id, lambda ctx: ctx.occurrence)


def sweep() -> Sweep:
    return Sweep.get_task("s-1")


def sweep_is_due(clock: StoppedClock) -> None:
    Sweep.create("s-1", repeat=NIGHTLY)
    until(clock, tuesday(1))


def report_is_collected(clock: StoppedClock) -> None:
    Report.create("r-1", repeat=NIGHTLY)
    until(clock, tuesday(1))
    succeed(Report.collect, "r-1")


# Occurrences.


def test_a_task_is_due_at_the_first_occurrence_and_after_each_success_at_the_next_one(clock: StoppedClock) -> None:
    created = Sweep.create("s-1", repeat=NIGHTLY)
    assert (created.due_time, created.repeat) == (tuesday(1), NIGHTLY)
    with pytest.raises(TaskNotReadyError, match="due at 2026-11-24 01:00"):
        run()
    until(clock, tuesday(1, 5))
    occurrence = run()
    task = sweep()
    assert occurrence is not None
    assert (occurrence, occurrence.isoformat()) == (tuesday(1), "2026-11-24T02:00:00+01:00")
    assert (task.state, task.due_time, task.attempt) == (Sweep.run.pending, tuesday(1) + DAY, 0)
    assert [entry["due_time"]["S"] for entry in index_entries(Sweep)] == [stamp(task.due_time)]


def test_each_round_goes_through_all_steps_and_is_another_one(clock: StoppedClock) -> None:
    report_is_collected(clock)
    between = Report.get_task("r-1")
    with Report.send.start("r-1") as ctx:
        assert ctx.occurrence == tuesday(1)
        ctx.task.note = "sent"
    after = Report.get_task("r-1")
    assert (between.state, between.occurrence, between.round) == (Report.send.pending, tuesday(1), None)
    assert (after.state, after.occurrence, after.due_time) == (Report.collect.pending, *[tuesday(1) + DAY] * 2)
    assert (after.note, after.expire_time) == ("sent", None)
    assert after.round is not None


def test_the_occurrence_stays_in_a_retry_and_is_the_local_day(clock: StoppedClock) -> None:
    Sweep.create("s-1", repeat=Repeat.cron("30 0 * * *", tz="Europe/Berlin"))
    until(clock, tuesday(5))
    fail(Sweep.run, "s-1")
    clock.advance(3 * DAY)
    assert f"{run():%Y-%m-%d}" == "2026-11-24"


@pytest.mark.parametrize(("missed", "runs"), [("latest", [3, 4]), ("all", [0, 1, 2, 3, 4])])
def test_what_was_missed_is_run_once_or_each_in_turn(clock: StoppedClock, missed: Any, runs: list[int]) -> None:
    Sweep.create("s-1", repeat=Repeat.cron("0 1 * * *", missed=missed))
    until(clock, tuesday(3) + 3 * DAY)
    found = [run() for _ in runs[:-1]]
    until(clock, tuesday(3) + 4 * DAY)
    found.append(run())
    assert found == [tuesday(1) + day * DAY for day in runs]
    with pytest.raises(TaskNotReadyError):
        run()


def test_a_rule_that_is_exhausted_ends_the_task_as_succeeded_and_it_is_kept(clock: StoppedClock) -> None:
    Report.create("r-1", repeat=Repeat.rrule("FREQ=DAILY;COUNT=2"))
    for _ in range(2):
        succeed(Report.collect, "r-1")
        succeed(Report.send, "r-1")
        clock.advance(DAY)
    task = Report.get_task("r-1")
    assert (task.state, task.expire_time, task.occurrence) == (Report.send.succeeded, None, None)
    again = Report.create_or_merge("r-1", repeat=Repeat.rrule("FREQ=DAILY;COUNT=2"))
    assert (again.effect, again.task.state) == ("merged", Report.send.succeeded)


def test_a_clock_that_is_set_back_repeats_nothing(clock: StoppedClock) -> None:
    Sweep.create("s-1", repeat=Repeat.cron("0 * * * *"))
    clock.advance(MINUTE * 30)
    until(clock, tuesday(0))
    run()
    clock.advance(-HOUR)
    with pytest.raises(TaskNotReadyError):
        run()
    until(clock, tuesday(1))
    assert run() == tuesday(1)


def test_a_run_that_begins_within_the_margin_of_the_clocks_is_not_repeated(clock: StoppedClock) -> None:
    Sweep.create("s-1", repeat=Repeat.cron("0 1 * * *"))
    until(clock, tuesday(1) - timedelta(seconds=1.5))
    assert (run(), sweep().due_time) == (tuesday(1), tuesday(1) + DAY)


def test_periods_count_from_the_first_occurrence_whenever_a_run_ends(clock: StoppedClock, monday: datetime) -> None:
    Sweep.create("s-1", due_time=HOUR, repeat=Repeat.every(5 * MINUTE))
    until(clock, monday + HOUR + MINUTE)
    assert (run(), sweep().due_time) == (monday + HOUR, monday + HOUR + 5 * MINUTE)


# Failures.


def test_the_last_failure_leads_to_the_next_occurrence_and_is_kept_until_a_success(clock: StoppedClock) -> None:
    report_is_collected(clock)
    fail(Report.send, "r-1")
    fail(Report.send, "r-1")
    task = Report.get_task("r-1")
    assert (task.state, task.due_time, task.attempt) == (Report.collect.pending, tuesday(1) + DAY, 0)
    assert [each.step for each in task.errors] == ["send", "send"]
    assert task.last_error is not None
    assert task.expire_time is None
    until(clock, task.due_time)
    succeed(Report.collect, "r-1")
    assert Report.get_task("r-1").last_error is None


def test_the_next_occurrence_may_be_started_with_another_payload(clock: StoppedClock) -> None:
    sweep_is_due(clock)
    with pytest.raises(GiveUp), Sweep.run.start("s-1", must_match="the 24th"):
        raise GiveUp("not today")
    clock.advance(DAY)
    with Sweep.run.start("s-1", must_match="the 25th"):
        pass
    clock.advance(DAY)
    with Sweep.run.start("s-1", must_match="the 26th") as ctx:
        assert ctx.attempt == 1


def test_a_task_that_gives_up_goes_on_with_the_next_occurrence_and_is_reported_as_failed(clock: StoppedClock) -> None:
    sweep_is_due(clock)

    def give_up(_: ExecutionContext[Sweep]) -> None:
        raise GiveUp("nothing to do today")

    report = Sweep.run.run_all(give_up)
    assert (report.failed, report.ignored, sweep().due_time) == (["s-1"], [], tuesday(1) + DAY)


def test_a_success_is_reported_as_one_although_the_task_is_pending_again(clock: StoppedClock) -> None:
    for task_id in ("s-1", "s-2"):
        Sweep.create(task_id, repeat=NIGHTLY)
    report_is_collected(clock)
    assert sorted(Sweep.run.run_all(lambda _: None).succeeded) == ["s-1", "s-2"]
    assert Report.send.run_all(lambda _: None).succeeded == ["r-1"]


@pytest.mark.parametrize("dies", [False, True], ids=["by its last failure", "by its last worker"])
def test_a_rule_that_stops_ends_ignored(clock: StoppedClock, *, dies: bool) -> None:
    Sweep.create("s-1", repeat=Repeat.cron("0 1 * * *", stop_on_failure=True))
    until(clock, tuesday(1))
    fail(Sweep.run, "s-1")
    if dies:
        die(Sweep.run, "s-1")
        clock.advance(HOUR)
        with pytest.raises(TaskIgnoredError):
            run()
    else:
        fail(Sweep.run, "s-1")
    assert sweep().state == Sweep.run.ignored


def test_a_task_whose_last_worker_died_goes_on_with_the_next_occurrence(clock: StoppedClock) -> None:
    report_is_collected(clock)
    for _ in range(2):
        die(Report.send, "r-1")
        clock.advance(HOUR)
    with pytest.raises(TaskNotReadyError):
        Report.send.run("r-1", print)
    task = Report.get_task("r-1")
    assert (task.state, task.due_time, task.attempt) == (Report.collect.pending, tuesday(1) + DAY, 0)
    assert task.last_error == "skipped: 2 of 2 attempts are used, the last one by a worker that died or lost its lock"


def test_the_last_failure_of_an_exhausted_rule_waits_for_a_person() -> None:
    Sweep.create("s-1", repeat=Repeat.rrule("FREQ=DAILY;COUNT=1"))
    fail(Sweep.run, "s-1")
    fail(Sweep.run, "s-1")
    assert sweep().state == Sweep.run.ignored
    Sweep.run.reopen("s-1")
    assert (run(), sweep().state) == (datetime(2026, 11, 23, 12, tzinfo=UTC), Sweep.run.succeeded)


# Commands.


def test_an_ignored_task_is_disabled_until_it_is_reopened_and_due_at_the_next_occurrence(clock: StoppedClock) -> None:
    Report.create("r-1", repeat=Repeat.cron("0 1 * * *", missed="all"))
    Report.collect.ignore("r-1", reason="holidays")
    early = Report.collect.reopen("r-1")
    Report.collect.ignore("r-1", reason="holidays")
    assert Report.get_task("r-1").expire_time is None
    clock.advance(10 * DAY)
    Report.create_or_merge("r-1", repeat=Repeat.cron("0 1 * * *", missed="all"))
    assert Report.get_task("r-1").state == Report.collect.ignored
    late = Report.collect.reopen("r-1", by="jane")
    assert (early.due_time, late.due_time) == (tuesday(1), tuesday(1) + 10 * DAY)
    assert (late.occurrence, late.state, late.attempt) == (late.due_time, Report.collect.pending, 0)
    assert late.errors[-1].type == "reopened"


def test_a_failed_task_that_is_reopened_retries_its_occurrence_at_once(clock: StoppedClock) -> None:
    sweep_is_due(clock)
    fail(Sweep.run, "s-1")
    Sweep.run.reopen("s-1")
    assert run() == tuesday(1)


def test_a_later_step_that_is_reopened_goes_on_with_its_round(clock: StoppedClock) -> None:
    report_is_collected(clock)
    Report.send.ignore("r-1", reason="check")
    clock.advance(2 * DAY)
    reopened = Report.send.reopen("r-1")
    assert (reopened.due_time, reopened.occurrence) == (tuesday(1) + 2 * DAY, tuesday(1))


def test_a_task_that_is_run_now_still_has_its_occurrence(clock: StoppedClock, monday: datetime) -> None:
    Sweep.create("s-1", repeat=NIGHTLY)
    asked = Sweep.create_or_merge("s-1")
    assert (asked.effect, asked.task.due_time, asked.task.extra_time) == ("merged", monday, monday)
    occurrence = run()
    assert occurrence is not None
    assert occurrence.isoformat() == "2026-11-23T13:00:00+01:00"
    task = sweep()
    assert (task.due_time, task.occurrence, task.extra_time) == (tuesday(1), tuesday(1), None)
    until(clock, tuesday(1))
    assert run() == tuesday(1)


def test_an_occurrence_that_is_put_off_keeps_its_time(clock: StoppedClock) -> None:
    Sweep.create("s-1", repeat=NIGHTLY)
    task = Sweep.create_or_merge("s-1", due_time=DAY, debounce=True).task
    clock.advance(DAY)
    assert (task.due_time, task.extra_time, run()) == (clock.now(), None, tuesday(1))


def test_an_occurrence_that_comes_while_the_task_runs_out_of_turn_is_run_after_that(clock: StoppedClock) -> None:
    Sweep.create("s-1", repeat=NIGHTLY)
    until(clock, tuesday(0, 58))
    Sweep.create_or_merge("s-1")
    with Sweep.run.start("s-1"):
        clock.advance(4 * MINUTE)
    assert run() == tuesday(1)


def test_a_run_that_is_asked_for_while_the_task_runs_comes_before_the_next_occurrence(clock: StoppedClock) -> None:
    report_is_collected(clock)
    with Report.send.start("r-1"):
        assert Report.create_or_merge("r-1", due_time=HOUR, note="asked").effect == "queued"
    task = Report.get_task("r-1")
    assert (task.state, task.note, task.queued) == (Report.collect.pending, "asked", None)
    assert (task.due_time, task.extra_time, task.occurrence) == (*[tuesday(2)] * 2, tuesday(1) + DAY)


def test_the_next_occurrence_takes_in_what_was_asked_for_a_later_time(clock: StoppedClock) -> None:
    sweep_is_due(clock)
    with Sweep.run.start("s-1"):
        Sweep.create_or_merge("s-1", due_time=3 * DAY)
    task = sweep()
    assert (task.due_time, task.extra_time, task.queued) == (tuesday(1) + DAY, None, None)


def test_what_was_asked_for_before_the_last_failure_makes_the_next_turn_come_sooner(clock: StoppedClock) -> None:
    sweep_is_due(clock)

    def ask_and_fail(_: ExecutionContext[Sweep]) -> None:
        Sweep.create_or_merge("s-1", due_time=HOUR)
        raise Broken

    with pytest.raises(Broken):
        Sweep.run.run("s-1", ask_and_fail)
    fail(Sweep.run, "s-1")
    task = sweep()
    assert (task.due_time, task.extra_time, task.queued is None) == (tuesday(2), tuesday(2), False)


def test_what_is_asked_for_during_the_attempt_that_fails_last_comes_before_the_next_occurrence(
    clock: StoppedClock,
) -> None:
    sweep_is_due(clock)
    fail(Sweep.run, "s-1")

    def ask_and_fail(_: ExecutionContext[Sweep]) -> None:
        Sweep.create_or_merge("s-1")
        raise Broken

    with pytest.raises(Broken):
        Sweep.run.run("s-1", ask_and_fail)
    task = sweep()
    assert (task.state, task.due_time, task.extra_time) == (Sweep.run.pending, clock.now(), clock.now())


# Changed rules.


def test_a_start_of_the_program_changes_nothing_if_the_rule_is_the_same(clock: StoppedClock) -> None:
    for rule in (NIGHTLY, Repeat.every(HOUR)):
        Sweep.create("s-1", repeat=rule)
        run_at = sweep().due_time
        clock.advance(10 * MINUTE)
        with recorded() as requests:
            assert Sweep.create_or_merge("s-1", repeat=rule).effect == "merged"
        assert requests.operations == ["UpdateItem", "PutItem"]  # the first one is for the list of schedules
        assert sweep().due_time == run_at
        until(clock, run_at)
        with Sweep.run.start("s-1"), recorded() as requests:
            Sweep.create_or_merge("s-1", repeat=rule)
        assert requests.operations == ["UpdateItem", "PutItem"]
        Sweep.delete_task("s-1")


def test_create_or_merge_creates_a_task_with_a_rule_once() -> None:
    assert Sweep.create_or_merge("s-1", repeat=NIGHTLY).effect == "created"
    with pytest.raises(TaskAlreadyExistsError):
        Sweep.create("s-1", repeat=NIGHTLY)
    assert sweep().due_time == tuesday(1)


def test_a_changed_rule_moves_a_waiting_task_to_its_first_occurrence() -> None:
    Sweep.create("s-1", repeat=NIGHTLY)
    later = Sweep.create_or_merge("s-1", repeat=Repeat.cron("0 5 * * *")).task
    earlier = Sweep.create_or_merge("s-1", repeat=Repeat.cron("0 * * * *")).task
    assert (later.due_time, later.occurrence) == (tuesday(5), tuesday(5))
    assert earlier.due_time == datetime(2026, 11, 23, 12, tzinfo=UTC)
    assert Sweep.create_or_merge("s-1", repeat=Repeat.cron("0 * * * *")).effect == "merged"


def test_a_changed_rule_leaves_a_task_that_is_due_or_is_to_be_retried_at_its_occurrence(clock: StoppedClock) -> None:
    sweep_is_due(clock)
    changed = Sweep.create_or_merge("s-1", repeat=Repeat.rrule("FREQ=DAILY;INTERVAL=2;BYHOUR=5")).task
    fail(Sweep.run, "s-1")
    Sweep.create_or_merge("s-1", repeat=Repeat.rrule("FREQ=DAILY;INTERVAL=3;BYHOUR=6"))
    assert (changed.due_time, changed.occurrence, run()) == (tuesday(1), tuesday(1), tuesday(1))
    assert sweep().due_time == tuesday(6)


def test_a_rule_that_is_changed_while_the_task_runs_holds_from_its_success_on(clock: StoppedClock) -> None:
    sweep_is_due(clock)
    with Sweep.run.start("s-1"):
        assert Sweep.create_or_merge("s-1", repeat=Repeat.cron("30 1 * * *")).effect == "queued"
        assert Sweep.create_or_merge("s-1", repeat=Repeat.cron("30 2 * * *")).effect == "queued"
    task = sweep()
    assert (task.due_time, task.repeat, task.extra_time) == (tuesday(2, 30), Repeat.cron("30 2 * * *"), None)


def test_a_rule_that_only_stops_from_now_on_keeps_its_phase(clock: StoppedClock) -> None:
    biweekly = "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU;BYHOUR=1;BYMINUTE=0;BYSECOND=0"
    Sweep.create("s-1", repeat=Repeat.rrule(biweekly, missed="all"))
    until(clock, tuesday(1) + 7 * DAY)
    with Sweep.run.start("s-1"):
        Sweep.create_or_merge("s-1", repeat=Repeat.rrule(biweekly, missed="all", stop_on_failure=True))
    assert sweep().due_time == tuesday(1) + 14 * DAY
    task = Sweep.create_or_merge("s-1", repeat=Repeat.rrule(biweekly, missed="latest")).task
    assert (task.due_time, task.repeat) == (tuesday(1) + 14 * DAY, Repeat.rrule(biweekly))


def test_a_rule_that_is_changed_within_the_margin_of_the_clocks_does_not_repeat_the_run(clock: StoppedClock) -> None:
    Sweep.create("s-1", repeat=Repeat.cron("0 1 * * *"))
    until(clock, tuesday(1) - timedelta(seconds=1.5))
    with Sweep.run.start("s-1"):
        Sweep.create_or_merge("s-1", repeat=Repeat.cron("0 1 * * *", tz="Africa/Accra"))
    assert sweep().due_time == tuesday(1) + DAY


def test_a_plain_task_that_gets_a_rule_repeats_after_its_present_run(monday: datetime) -> None:
    for task_id in ("s-1", "s-2", "s-3"):
        Sweep.create(task_id)
    fail(Sweep.run, "s-3")
    Sweep.create_or_merge("s-1", repeat=NIGHTLY)
    Sweep.create_or_merge("s-3", repeat=NIGHTLY)
    with Sweep.run.start("s-2") as ctx:
        assert ctx.occurrence is None
        Sweep.create_or_merge("s-2", repeat=NIGHTLY)
    assert (run(), run("s-3")) == (monday, monday)
    assert [Sweep.get_task(each).due_time for each in ("s-1", "s-2", "s-3")] == [tuesday(1)] * 3


def test_a_task_that_has_ended_begins_anew_with_a_rule_or_out_of_turn(clock: StoppedClock, monday: datetime) -> None:
    Sweep.create("s-1")
    run()
    assert (Sweep.create_or_merge("s-1", repeat=NIGHTLY).effect, sweep().due_time) == ("restarted", tuesday(1))
    Sweep.create("s-2", repeat=Repeat.rrule("FREQ=DAILY;COUNT=1"))
    run("s-2")
    clock.advance(HOUR)
    assert (Sweep.create_or_merge("s-2").effect, run("s-2")) == ("restarted", monday + HOUR)
    assert Sweep.get_task("s-2").state == Sweep.run.succeeded


def test_a_rule_that_is_over_creates_no_task_and_leaves_an_existing_one_as_it_is() -> None:
    over = Repeat.rrule("FREQ=DAILY;UNTIL=20261101T000000")
    with pytest.raises(ValueError, match=r"cannot create Sweep 's-1': FREQ=DAILY;.* never occurs at or after"):
        Sweep.create("s-1", repeat=over)
    with pytest.raises(ValueError, match="never occurs again"):
        Sweep.create_or_merge("s-1", repeat=over)
    Sweep.create("s-1")
    run()
    assert Sweep.create_or_merge("s-1", repeat=over).task.state == Sweep.run.succeeded


# What is wrong.


def test_a_damaged_occurrence_fails_each_attempt_and_says_what_cannot_be_read(clock: StoppedClock) -> None:
    Sweep.create("s-1", repeat=NIGHTLY)
    Sweep.create("s-2", repeat=NIGHTLY)
    until(clock, tuesday(1))
    change(Sweep, "s-1", occurrence={"S": "tomorrow"})
    report = Sweep.run.run_all(lambda _: None)
    with pytest.raises(TaskError, match=r"Sweep 's-1' cannot be read: occurrence .*'tomorrow'"):
        run()
    assert (report.succeeded, [task.task_id for task in Sweep.run.ignored.query()]) == (["s-2"], ["s-1"])
    with pytest.raises(TaskError, match="cannot be read"):
        Sweep.create_or_merge("s-1", repeat=NIGHTLY)


def test_a_machine_that_does_not_know_the_rule_leaves_the_task_to_others(clock: StoppedClock) -> None:
    Sweep.create("s-1", repeat=NIGHTLY)
    Sweep.create("s-2", repeat=NIGHTLY)
    until(clock, tuesday(1))
    known = stored(Sweep, "s-1")
    change(Sweep, "s-1", repeat={"S": '{"cron":"0 2 * * *","tz":"Mars/Olympus"}'})
    report = Sweep.run.run_all(lambda _: None)
    for _ in range(5):
        with pytest.raises(TaskFormatError, match=r"cannot read Sweep 's-1' on .*time zone 'Mars/Olympus'.*tzdata"):
            run()
    assert (report.succeeded, [*report.refused]) == (["s-2"], ["s-1"])
    left = stored(Sweep, "s-1")
    assert (left["status"], left["attempt"], left["unfinished"]) == (known["status"], {"N": "0"}, {"L": []})
    change(Sweep, "s-1", repeat=known["repeat"])  # as another machine reads it
    run()
    assert sweep().due_time == tuesday(1) + DAY


def test_a_machine_that_does_not_know_the_rule_of_a_dead_worker_counts_that_attempt_alone(clock: StoppedClock) -> None:
    sweep_is_due(clock)
    die(Sweep.run, "s-1")
    clock.advance(HOUR)
    change(Sweep, "s-1", repeat={"S": '{"cron":"0 2 * * *","tz":"Mars/Olympus"}'})
    with pytest.raises(TaskFormatError):
        run()
    left = stored(Sweep, "s-1")
    assert (left["attempt"], left["unfinished"]) == ({"N": "1"}, {"L": [{"N": "1"}]})


def test_a_row_of_its_own_for_each_occurrence_is_created_with_the_success(clock: StoppedClock) -> None:
    sweep_is_due(clock)

    def collect(ctx: ExecutionContext[Sweep]) -> None:
        ctx.create(Report, f"{ctx.occurrence:%Y-%m-%d}")
        ctx.create(Sweep, f"{ctx.occurrence:%A}", due_time=HOUR, repeat=NIGHTLY)

    Sweep.run.run("s-1", collect)
    assert sweep().due_time == Sweep.get_task("Tuesday").due_time == tuesday(1) + DAY
    until(clock, tuesday(1) + DAY)
    Sweep.run.run("s-1", collect)
    assert [task.task_id for task in Report.collect.pending.query()] == ["2026-11-24", "2026-11-25"]


def test_no_step_waits_for_a_task_that_repeats() -> None:
    Report.create("r-1")
    with Report.collect.start("r-1") as ctx, pytest.raises(ValueError, match=r"cannot wait for Sweep 's-1', which rep"):
        ctx.create(Sweep, "s-1", repeat=NIGHTLY, wait=True)


@pytest.mark.parametrize("create", [Sweep.create, Sweep.create_or_merge])
def test_what_is_no_rule_is_refused(create: Any) -> None:
    with pytest.raises(TypeError, match="repeat must be a Repeat, not '0 2"):
        create("s-1", repeat="0 2 * * *")


def test_a_task_that_repeats_begins_at_its_first_step() -> None:
    with pytest.raises(ValueError, match="leave state out"):
        Sweep.create("s-1", repeat=NIGHTLY, state=Sweep.run.ignored)


def test_an_ignored_task_that_gets_a_rule_is_kept() -> None:
    Report.create("r-1", state=Report.collect.ignored)
    assert Report.get_task("r-1").expire_time is not None
    Report.create_or_merge("r-1", repeat=NIGHTLY)
    task = Report.get_task("r-1")
    assert (task.state, task.repeat, task.expire_time) == (Report.collect.ignored, NIGHTLY, None)


def test_a_run_that_is_asked_for_after_the_last_failure_does_not_wait_for_the_next_occurrence(monday: datetime) -> None:
    Sweep.create("s-1", repeat=NIGHTLY)
    Sweep.create_or_merge("s-1")

    def asked_again(_: ExecutionContext[Sweep]) -> None:
        Sweep.create_or_merge("s-1", due_time=3 * DAY)
        raise GiveUp

    with pytest.raises(GiveUp):
        Sweep.run.run("s-1", asked_again)
    assert not list(Sweep.run.due_ids())
    Sweep.create_or_merge("s-1")
    assert ([run(), run()], Sweep.get_task("s-1").due_time) == ([monday] * 2, tuesday(1))


# What the row keeps of the last round.


def last_run(task_id: str = "s-1") -> LastRun:
    found: LastRun | None = Sweep.get_task(task_id).last_run
    assert found is not None
    return found


def test_the_row_says_how_its_last_round_ended(clock: StoppedClock) -> None:
    Sweep.create("s-1", repeat=NIGHTLY)
    until(clock, tuesday(1, 5))
    fail(Sweep.run, "s-1")
    assert sweep().last_run is None
    clock.advance(HOUR)
    with Sweep.run.start("s-1") as ctx:
        ctx.create(Sweep, "s-2")
    assert last_run() == ctx.task.last_run == LastRun(tuesday(1), tuesday(1), "succeeded", 2, tuesday(2, 5), 1)
    assert str(last_run().occurrence) == "2026-11-24 02:00:00+01:00"
    assert stored(Sweep, "s-1")["last_run"] == {
        "S": '{"occurrence":"20261124T020000+0100","outcome":"succeeded","attempt":2,"ended":"20261124T020500Z",'
        '"created":1}'
    }


def ignore_while_it_runs(task_id: str) -> None:
    die(Sweep.run, task_id)
    Sweep.run.ignore(task_id, reason="stuck", even_running=True)


@pytest.mark.parametrize(
    ("end", "outcome", "attempt"),
    [
        (lambda: [fail(Sweep.run, "s-1"), fail(Sweep.run, "s-1", error=GiveUp("broken"))], "failed", 2),
        (lambda: Sweep.run.ignore("s-1", reason="not today"), "ignored", 0),
        (lambda: ignore_while_it_runs("s-1"), "ignored", 1),
        (lambda: Sweep.cancel("s-1", reason="not today"), "cancelled", 0),
    ],
)
def test_each_other_end_of_a_round_is_kept(clock: StoppedClock, end: Any, outcome: str, attempt: int) -> None:
    sweep_is_due(clock)
    end()
    assert (last_run().occurrence, last_run().outcome, last_run().attempt) == (tuesday(1), outcome, attempt)


def test_a_release_is_no_end_of_a_round(clock: StoppedClock) -> None:
    sweep_is_due(clock)
    die(Sweep.run, "s-1")
    assert Sweep.run.unlock("s-1", reason="its host is gone", worker=this_worker()).last_run is None


@pytest.mark.parametrize("rule", [NIGHTLY, Repeat.cron("0 2 * * *", tz="Europe/Berlin", stop_on_failure=True)])
def test_the_end_of_a_round_whose_last_worker_died_is_kept(clock: StoppedClock, rule: Repeat) -> None:
    Sweep.create("s-1", repeat=rule)
    until(clock, tuesday(1))
    for _ in range(2):
        die(Sweep.run, "s-1")
        clock.advance(HOUR)
    with pytest.raises((TaskIgnoredError, TaskNotReadyError)):
        run()
    assert (last_run().outcome, last_run().attempt) == ("ignored" if rule.stop_on_failure else "skipped", 2)


def test_a_run_that_was_asked_for_is_kept_without_an_occurrence(clock: StoppedClock, monday: datetime) -> None:
    Sweep.create("s-1", repeat=NIGHTLY)
    Sweep.create_or_merge("s-1", due_time=monday)
    run()
    assert last_run() == LastRun(None, monday, "succeeded", 1, monday, 0)
    clock.advance(HOUR)
    Sweep.create("s-2")
    run("s-2")
    assert Sweep.get_task("s-2").last_run is None


def test_what_is_kept_of_a_round_is_short() -> None:
    longest = LastRun(tuesday(1).astimezone(NIGHTLY.zone), tuesday(1), "succeeded", 99_999, tuesday(1), 999_999)
    assert len(longest.stored()) <= 120
    assert LastRun.read(longest.stored()) == longest
