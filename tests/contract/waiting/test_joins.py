"""A step waits for the tasks that its run has created: each counts once, and the last one makes the next step due."""

import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError
from pynamodb.attributes import NumberAttribute

from pynamodb_tracker import (
    ExecutionContext,
    GiveUp,
    Step,
    Task,
    TaskAlreadyExistsError,
    TaskIgnoredError,
    TaskNotReadyError,
    UseCase,
)
from pynamodb_tracker.exceptions import TaskError
from pynamodb_tracker.features import children
from pynamodb_tracker.testing import StoppedClock
from tests.support.network import (
    SKIPPED_OCCURRENCES,
    Network,
    before,
    cancelled,
    error,
    passing,
    throttled,
    unheard,
    unreached,
)
from tests.support.recorder import recorded
from tests.support.rows import change, stored
from tests.support.shop import created
from tests.support.workers import Broken, die, fail, succeed

pytestmark = pytest.mark.usefixtures("table", "task")

MONTH = timedelta(days=30)
HOUR = timedelta(hours=1)


class ReportTask(Task):
    class Meta:
        """Its name and its endpoint are those of the engine, while a test runs."""

        table_name = "reports"
        region = "us-east-1"


class Report(ReportTask):
    use_case_id = UseCase("report")

    split, collect, send = Step(10), Step(20), Step(30)

    total = NumberAttribute(default=0)


CREATED = Report, "r"


class Part(ReportTask):
    """Is waited for; its tasks are kept for a month once they have ended."""

    use_case_id = UseCase("part", keep_for=MONTH, keep_ignored_for=MONTH)

    check = Step(10, max_attempts=1)


class Chapter(ReportTask):
    use_case_id = UseCase("chapter")

    read, check = Step(10), Step(20)


TABLES = [ReportTask]


def split(task_id: str = "r", *, parts: int = 2, until: datetime | timedelta | None = None, **options: Any) -> None:
    """Run the step that creates the parts for which the next one waits."""
    with Report.split.start(task_id, **options) as ctx:
        for number in range(parts):
            ctx.create(Part, f"{task_id}/{number}", wait=True)
        if until is not None:
            ctx.wait_until(until)


def finish(*part_ids: str) -> None:
    succeed(Part.check, *part_ids)


def waits() -> int | None:
    """Return how many tasks the report waits for; it says so in words, too."""
    report = Report.get_task("r")
    assert report.waits_for == (report.blockers and ("1 task" if report.blockers == 1 else f"{report.blockers} tasks"))
    return report.blockers


def is_due() -> bool:
    return list(Report.collect.due_ids()) == ["r"]


def unheard_once(network: Network) -> None:
    """Carry the next transaction out, but do not answer it."""
    once = unheard("TransactWriteItems")

    def rule(operation: str, request: Any, send: Any) -> Any:
        if operation == "TransactWriteItems":
            network.rule = passing
        return once(operation, request, send)

    network.rule = rule


@pytest.fixture
def report(task: None) -> None:  # noqa: ARG001 - it is to be there
    """Run the step of the report that creates its two parts."""
    split()


@pytest.mark.usefixtures("report")
def test_the_next_step_is_due_once_the_last_child_has_succeeded(clock: StoppedClock) -> None:
    assert (waits(), is_due()) == (2, False)
    assert stored(Report, "r")["v"] == stored(Part, "r/0")["v"] == {"N": "1"}
    clock.advance(timedelta(days=365))
    finish("r/1")
    assert (waits(), is_due()) == (1, False)
    finish("r/0")
    assert (waits(), is_due()) == (None, True)
    found = Report.collect.run("r", lambda _: Part.get_many(["r/0", "r/1"]))
    assert [part.state for part in found] == [Part.check.succeeded] * 2
    assert Report.get_task("r").state == Report.send.pending


def test_a_child_counts_with_the_success_of_its_last_step() -> None:
    with Report.split.start("r") as ctx:
        ctx.create(Chapter, "r/0", wait=True)
    succeed(Chapter.read, "r/0")
    assert not is_due()
    succeed(Chapter.check, "r/0")
    assert is_due()


@pytest.mark.usefixtures("report")
def test_a_refused_start_says_how_many_tasks_it_waits_for(clock: StoppedClock) -> None:
    with pytest.raises(TaskNotReadyError, match=r"'r': it is collect pending, and waits for 2 tasks, so it becomes"):
        Report.collect.run("r", print)
    Report.create("later")
    split("later", until=clock.now() + HOUR)
    with pytest.raises(TaskNotReadyError, match=r"waits for 2 tasks, or until \S+ \S+ UTC, so"):
        Report.collect.run("later", print)


def test_without_children_the_next_step_is_due_at_once(clock: StoppedClock) -> None:
    split(parts=0, until=clock.now() + HOUR)
    assert (waits(), is_due()) == (None, True)


def test_a_step_starts_at_the_latest_at_the_time_until_which_it_waits(clock: StoppedClock) -> None:
    split(until=HOUR)
    finish("r/0")
    assert not is_due()
    clock.advance(HOUR)
    with Report.collect.start("r") as ctx:
        assert ctx.task.blockers == 1
        before = stored(Report, "r")
        finish("r/1")
        after = stored(Report, "r")
    assert {name for name in before if before[name] != after.get(name)} == {"blockers", "wait_until"}
    assert Report.get_task("r").state == Report.send.pending


def test_the_last_child_makes_the_next_step_due_before_the_time_until_which_it_waits(clock: StoppedClock) -> None:
    split(until=clock.now() + HOUR)
    clock.advance(timedelta(minutes=1))
    finish("r/0", "r/1")
    report = Report.get_task("r")
    assert (report.blockers, report.wait_until, report.due_time) == (None, None, clock.now())


def test_after_that_time_later_steps_wait_for_no_child(clock: StoppedClock) -> None:
    split(until=clock.now() + HOUR)
    clock.advance(HOUR)
    succeed(Report.collect, "r")
    assert list(Report.send.due_ids()) == ["r"]
    succeed(Report.send, "r")
    finish("r/0", "r/1")
    assert (Report.get_task("r").state, Report.get_task("r").blockers) == (Report.send.succeeded, None)


@pytest.mark.usefixtures("report")
def test_a_child_that_is_ignored_keeps_its_parent_waiting_until_it_is_reopened() -> None:
    finish("r/1")
    fail(Part.check, "r/0")
    assert (Part.get_task("r/0").state, waits()) == (Part.check.ignored, 1)
    Part.check.reopen("r/0")
    finish("r/0")
    assert is_due()


def ignored_by_a_person() -> None:
    Part.check.ignore("r/0", reason="cancelled")


def ignored_by_its_run() -> None:
    fail(Part.check, "r/0", GiveUp("no use"))


def ignored_by_a_worker(clock: StoppedClock) -> None:
    die(Part.check, "r/0")
    clock.advance(HOUR)
    with pytest.raises(TaskIgnoredError):
        Part.check.run("r/0", print)


@pytest.mark.usefixtures("report")
@pytest.mark.parametrize("ignored", [ignored_by_a_person, ignored_by_its_run, ignored_by_a_worker])
def test_a_child_that_is_ignored_gets_no_time_to_live(ignored: Callable[..., None], clock: StoppedClock) -> None:
    ignored(*([clock] if ignored is ignored_by_a_worker else []))
    assert Part.get_task("r/0").state == Part.check.ignored
    assert Part.get_task("r/0").expire_time is None


def test_a_child_of_a_group_that_is_ignored_is_returned_as_its_row_is() -> None:
    with Report.split.start("r") as ctx:
        ctx.create(Part, "r/0", wait=True, group="g")
    assert Part.check.ignore("r/0", reason="cancelled").expire_time is None
    assert "expire_time" not in stored(Part, "r/0")


@pytest.mark.usefixtures("report")
def test_a_child_that_has_counted_gets_a_time_to_live() -> None:
    finish("r/0")
    part = Part.get_task("r/0")
    assert part.expire_time is not None
    assert part.parent is None


@pytest.mark.usefixtures("report")
def test_a_child_counts_once_whatever_is_run_again() -> None:
    finish("r/0")
    with recorded(ReportTask) as requests:
        Part.check.run("r/0", print, also_from=[Part.check.succeeded])
    assert ({request.operation for request in requests}, waits()) == ({"UpdateItem", "GetItem", "Query"}, 1)


@pytest.mark.usefixtures("report")
@pytest.mark.parametrize("met_itself", [False, True])
def test_what_the_end_of_a_child_needs_is_imported_before_its_work_is_done(
    network: Network, monkeypatch: pytest.MonkeyPatch, *, met_itself: bool
) -> None:
    def rule(operation: str, _request: Any, send: Callable[[], Any]) -> Any:
        network.rule = passing
        send()
        raise error(operation, "ConditionalCheckFailedException", repeats=1)

    monkeypatch.delitem(sys.modules, "pynamodb_tracker.features.children.joins", raising=False)
    monkeypatch.delattr(children, "joins", raising=False)
    if met_itself:
        network.rule = rule
    with Part.check.start("r/0"):
        assert "pynamodb_tracker.features.children.joins" in sys.modules


@pytest.mark.usefixtures("report")
def test_a_child_that_is_deleted_counts() -> None:
    Part.delete_task("r/0")
    assert waits() == 1
    Part.get_task("r/1").delete()
    assert (waits(), is_due()) == (None, True)


@pytest.mark.usefixtures("report")
def test_children_that_have_ended_do_not_count_when_they_are_deleted() -> None:
    finish("r/0")
    Part.delete_task("r/0")
    assert waits() == 1


@pytest.mark.usefixtures("report")
def test_deleting_a_use_case_counts_its_children() -> None:
    assert len(Part.delete_use_case().succeeded) == 2
    assert is_due()


@pytest.mark.usefixtures("report")
@pytest.mark.parametrize("operation", [Part.delete_task, finish], ids=["deleted", "succeeded"])
def test_a_child_whose_end_got_no_answer_counts_once(operation: Callable[[str], None], network: Network) -> None:
    unheard_once(network)
    operation("r/0")
    assert waits() == 1


@pytest.mark.usefixtures("report")
def test_a_child_whose_parent_cannot_be_read_for_a_while_succeeds(network: Network) -> None:
    with Part.check.start("r/0"):
        network.rule = throttled("GetItem", 2 * SKIPPED_OCCURRENCES)
    assert waits() == 1


@pytest.mark.usefixtures("report")
def test_the_last_two_children_at_once_make_the_next_step_due(network: Network) -> None:
    before(network, "TransactWriteItems", lambda: finish("r/1"))
    finish("r/0")
    assert (waits(), is_due()) == (None, True)


@pytest.mark.usefixtures("report")
def test_a_child_whose_parent_is_gone_succeeds(network: Network) -> None:
    before(network, "TransactWriteItems", lambda: Report.delete_task("r"))
    finish("r/0", "r/1")
    assert [part.state for part in Part.get_many(["r/0", "r/1"])] == [Part.check.succeeded] * 2
    assert Report.get_many(["r"]) == []


@pytest.mark.parametrize(
    ("row", "damage", "says"),
    [
        ((Report, "r"), {"blockers": {"S": "two"}}, "cannot be read: blockers"),
        (
            (Part, "r/0"),
            {"parent": {"S": "r"}},
            "cannot be counted, because its parent is damaged: 'r' is not a reference",
        ),
    ],
    ids=["unreadable", "no reference"],
)
@pytest.mark.usefixtures("report")
def test_a_child_that_cannot_be_counted_has_failed(row: tuple[type[Task], str], damage: Any, says: str) -> None:
    change(*row, **damage)
    with pytest.raises(TaskError, match=says), Part.check.start("r/0"):
        pass
    part = Part.get_task("r/0")
    assert (part.state, says in part.errors[-1].message) == (Part.check.ignored, True)


def live_again() -> None:
    """Delete the report, create it again, and let it wait for another part."""
    Report.delete_task("r")
    Report.create("r")
    with Report.split.start("r") as ctx:
        ctx.create(Part, "r/of its next life", wait=True)


@pytest.mark.usefixtures("report")
@pytest.mark.parametrize("end", [finish, Part.delete_task], ids=["succeeded", "deleted"])
def test_a_child_does_not_count_for_a_later_life_of_its_parent(end: Callable[[str], None], network: Network) -> None:
    finish("r/1")
    before(network, "TransactWriteItems", live_again)
    end("r/0")
    assert (waits(), is_due()) == (1, False)


def start_over() -> None:
    """Bring the report to its end, and run it from there once more, with another part."""
    for step in (Report.collect, Report.send):
        succeed(step, "r")
    with Report.split.start("r", also_from=[Report.send.succeeded]) as ctx:
        ctx.create(Part, "r/of its next round", wait=True)


def test_a_child_does_not_count_for_a_later_round_of_its_parent(clock: StoppedClock, network: Network) -> None:
    split(parts=1, until=clock.now())
    before(network, "TransactWriteItems", start_over)
    finish("r/0")
    assert (waits(), is_due()) == (1, False)


@pytest.mark.usefixtures("report")
def test_a_child_that_is_asked_for_again_while_it_runs_counts_once() -> None:
    with Part.check.start("r/0"):
        assert Part.create_or_merge("r/0").effect == "queued"
    assert (waits(), Part.get_task("r/0").state) == (1, Part.check.pending)
    finish("r/0")
    assert waits() == 1


def test_a_parent_that_is_asked_for_again_waits_no_more_for_late_children(clock: StoppedClock) -> None:
    split(until=clock.now())
    succeed(Report.collect, "r")
    with Report.send.start("r"):
        assert Report.create_or_merge("r").effect == "queued"
    assert Report.get_task("r").blockers is None
    with Report.split.start("r") as ctx:
        ctx.create(Part, "r/of its next round", wait=True)
    finish("r/0", "r/1")
    assert (waits(), is_due()) == (1, False)


def test_a_later_round_does_not_take_children_of_an_earlier_one_for_its_own() -> None:
    split()
    finish("r/0", "r/1")
    for step in (Report.collect, Report.send):
        succeed(step, "r")
    with pytest.raises(TaskAlreadyExistsError, match="r/0"):
        split(also_from=[Report.send.succeeded])
    report = Report.get_task("r")
    assert (report.state, report.blockers) == (Report.split.failed, None)


@pytest.mark.usefixtures("report")
def test_a_step_that_runs_again_in_its_round_waits_for_the_children_that_are_left() -> None:
    finish("r/0")
    Report.collect.ignore("r", reason="again")
    split(parts=3, also_from=[Report.collect.ignored])
    assert (waits(), is_due()) == (2, False)
    finish("r/1", "r/2")
    assert is_due()


@pytest.mark.usefixtures("report")
def test_a_step_that_runs_again_after_its_children_have_succeeded_does_not_wait() -> None:
    finish("r/0", "r/1")
    Report.collect.ignore("r", reason="again")
    split(also_from=[Report.collect.ignored])
    assert (waits(), is_due()) == (None, True)


@pytest.mark.usefixtures("report")
def test_the_last_child_may_succeed_while_the_step_that_created_it_succeeds_again(network: Network) -> None:
    finish("r/0")
    Report.collect.ignore("r", reason="again")
    act = lambda: before(network, "TransactWriteItems", lambda: finish("r/1"))  # noqa: E731 - the second one finds it there
    before(network, "TransactWriteItems", act)
    split(also_from=[Report.collect.ignored])
    assert (waits(), is_due()) == (None, True)


@pytest.mark.usefixtures("report")
def test_a_parent_that_is_reopened_goes_on_waiting() -> None:
    Report.collect.ignore("r", reason="not now")
    assert Report.get_task("r").waits_for is None
    assert Report.collect.reopen("r", by="ann").waits_for == "2 tasks"
    finish("r/0", "r/1")
    assert is_due()


def test_a_parent_that_is_reopened_starts_at_the_time_until_which_it_waits(clock: StoppedClock) -> None:
    split(until=clock.now() + HOUR)
    Report.collect.ignore("r", reason="not now")
    assert Report.collect.reopen("r").due_time == clock.now() + HOUR
    clock.advance(HOUR)
    fail(Report.collect, "r")
    assert Report.collect.reopen("r").due_time == clock.now()


@pytest.mark.usefixtures("report")
def test_a_parent_that_is_ignored_when_its_last_child_succeeds_is_due_once_it_is_reopened() -> None:
    Report.collect.ignore("r", reason="not now")
    finish("r/0", "r/1")
    report = Report.get_task("r")
    assert (report.state, report.blockers) == (Report.collect.ignored, None)
    Report.collect.reopen("r")
    assert is_due()


@pytest.mark.usefixtures("report")
@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_the_last_child_may_succeed_while_its_parent_is_reopened(network: Network, *, done: bool) -> None:
    finish("r/0")
    Report.collect.ignore("r", reason="not now")
    if done:
        before(network, "TransactWriteItems", lambda: Report.collect.reopen("r"))
        finish("r/1")
    else:
        later = lambda: before(network, "UpdateItem", lambda: finish("r/1"))  # noqa: E731 - before the second one
        before(network, "UpdateItem", later)
        Report.collect.reopen("r")
    assert (waits(), is_due()) == (None, True)


def test_the_success_that_begins_to_wait_counts_its_children_once_if_its_answer_gets_lost(network: Network) -> None:
    with Report.split.start("r") as ctx:
        ctx.create(Part, "r/0", wait=True)
        unheard_once(network)
    assert (waits(), Part.get_task("r/0").state) == (1, Part.check.pending)


def test_a_failed_attempt_waits_for_nothing() -> None:
    def create_and_fail(ctx: ExecutionContext[Report]) -> None:
        ctx.create(Part, "r/0", wait=True)
        raise Broken

    with pytest.raises(Broken):
        Report.split.run("r", create_and_fail)
    assert (Report.get_task("r").blockers, Part.get_many(["r/0"])) == (None, [])


def test_the_own_transaction_of_a_block_counts_for_the_parent_and_waits_for_children() -> None:
    with Report.split.start("r") as ctx:
        ctx.create(Part, "r/0", wait=True)
        with ctx.transaction(succeed=True):
            pass
    assert waits() == 1
    with Part.check.start("r/0") as of_part, of_part.transaction(succeed=True):
        pass
    assert is_due()


@pytest.mark.usefixtures("report")
def test_a_transaction_of_a_child_cannot_write_the_row_of_its_parent_as_well() -> None:
    def add_up(ctx: ExecutionContext[Part]) -> None:
        with ctx.transaction(succeed=True) as transaction:
            transaction.update(Report("r", "report"), [Report.total.add(1)])

    with pytest.raises(ValueError, match=r"this transaction and the tracker both write report 'r' of reports"):
        Part.check.run("r/0", add_up)
    assert waits() == 2


def test_a_child_may_wait_for_children_of_its_own() -> None:
    with Report.split.start("r") as ctx:
        ctx.create(Report, "r/0", wait=True)
    split("r/0", parts=1)
    finish("r/0/0")
    succeed(Report.collect, "r/0")
    assert waits() == 1
    succeed(Report.send, "r/0")
    assert is_due()


@created(state=Report.send.pending)
def test_the_last_step_cannot_wait() -> None:
    with Report.send.start("r") as ctx, unreached():
        with pytest.raises(ValueError, match=r"leads to the end"):
            ctx.create(Part, "r/0", wait=True)
        with pytest.raises(ValueError, match=r"leads to the end"):
            ctx.wait_until(datetime.max.replace(tzinfo=UTC))
    assert Report.get_task("r").state == Report.send.succeeded


def test_a_step_waits_for_at_most_97_children() -> None:
    with Report.split.start("r") as ctx:
        for number in range(97):
            ctx.create(Part, f"r/{number}", wait=True)
        with unreached(), pytest.raises(ValueError, match="at most 97"):
            ctx.create(Part, "r/97", wait=True)
    assert waits() == 97


def test_a_child_is_counted_by_a_program_that_does_not_declare_its_parent() -> None:
    split(parts=1)
    known = ReportTask.tracker.table.use_cases.pop("report")
    try:
        finish("r/0")
    finally:
        ReportTask.tracker.table.use_cases["report"] = known
    assert is_due()


@pytest.mark.usefixtures("report")
def test_a_child_whose_clock_is_behind_makes_its_parent_due_no_earlier_than_that_was_written(
    clock: StoppedClock,
) -> None:
    clock.advance(timedelta(seconds=-1))
    finish("r/0", "r/1")
    report = Report.get_task("r")
    assert report.due_time == report.update_time > clock.now()


@pytest.mark.usefixtures("report")
def test_an_end_without_an_answer_is_looked_for_although_its_parent_has_kept_changing_since(network: Network) -> None:
    changes, late = cancelled("None", "ConditionalCheckFailed"), list[Callable[[], Any]]()

    def rule(operation: str, request: Any, send: Callable[[], Any]) -> Any:
        if operation == "TransactWriteItems" and not late:
            late.append(send)
            raise ReadTimeoutError(endpoint_url="of the test")
        if operation == "GetItem" and late and request["Key"]["use_case_id"]["S"] == "part":
            network.rule = passing
            late[0]()
        return changes(operation, request, send)

    network.rule = rule
    finish("r/0")
    assert (Part.get_task("r/0").state, waits()) == (Part.check.succeeded, 1)
