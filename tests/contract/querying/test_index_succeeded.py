"""Tasks that leave the index when their last step succeeds: everything goes on working without their `status_key`."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import Repeat, State, Step, TaskAlreadySucceededError, TrackerError, UseCase
from pynamodb_tracker.clock import StoppedClock
from pynamodb_tracker.exceptions import TaskError
from tests.cli.command import run
from tests.support.rows import change, index_entries, stored
from tests.support.shop import AppTask
from tests.support.workers import die, fail, succeed

pytestmark = pytest.mark.usefixtures("table")


class Slim(AppTask):
    use_case_id = UseCase("slim", index_succeeded=False, keep_for=timedelta(days=30))

    pack = Step(10)
    send = Step(20)


class Part(AppTask):
    use_case_id = UseCase("slim-part", index_succeeded=False)

    make = Step(10)


STEPS = (Slim.pack, Slim.send)
HERE = "tests.contract.querying.test_index_succeeded:"


def nothing(_: object) -> None:
    pass


def finish(*task_ids: str) -> None:
    for task_id in task_ids:
        for step in STEPS:
            succeed(step, task_id)


def indexed() -> dict[str, str]:
    return {entry["task_id"]["S"]: entry["status_key"]["S"] for entry in index_entries(Slim)}


def test_a_task_leaves_the_index_with_its_last_success_and_stays_in_the_table() -> None:
    Slim.create_many(["done", "half", "new"])
    succeed(Slim.pack, "half")
    finish("done")
    assert indexed() == {"half": "slim#20#0", "new": "slim#10#0"}
    task = Slim.get_task("done")
    assert (task.state, task.status_key, task.due_time) == (Slim.send.succeeded, None, task.update_time)
    assert task.expire_time == task.update_time.replace(microsecond=0) + timedelta(days=30)
    assert {str(state): number for state, number in Slim.counts().items() if number} == {
        "pack pending": 1,
        "send pending": 1,
    }
    assert Slim.send.succeeded not in Slim.counts()
    assert sorted(task.task_id for task in Slim.get_many(["done", "half"])) == ["done", "half"]


ASKS: list[Callable[[State[Any]], object]] = [
    lambda state: state.query(),
    lambda state: state.page(),
    lambda state: state.index_page(),
    lambda state: state.count(),
]


@pytest.mark.parametrize("ask", ASKS, ids=["query", "page", "index_page", "count"])
def test_the_index_is_not_asked_for_tasks_that_it_does_not_have(ask: Callable[[State[Any]], object]) -> None:
    with pytest.raises(TrackerError, match=r"succeeded tasks .*UseCase\('slim', index_succeeded=False\)"):
        ask(Slim.send.succeeded)
    ask(Slim.pack.succeeded)
    ask(Slim.send.ignored)


def test_tasks_that_succeeded_before_are_not_counted() -> None:
    Slim.create("old", state=Slim.send.succeeded)
    change(Slim, "old", status_key={"S": "slim#1000#0"})
    assert sum(Slim.counts().values()) == 0


def test_a_task_that_is_created_as_succeeded_is_not_in_the_index() -> None:
    Slim.create("imported", state=Slim.send.succeeded)
    assert indexed() == {}
    with pytest.raises(TaskAlreadySucceededError):
        Slim.send.run("imported", nothing)


def test_a_finished_task_can_be_run_again_and_is_in_the_index_meanwhile() -> None:
    Slim.create("o-1")
    finish("o-1")
    with Slim.send.start("o-1", also_from=[Slim.send.succeeded]):
        assert indexed() == {"o-1": "slim#21#0"}
    assert indexed() == {}


def test_a_task_whose_worker_died_after_it_had_finished_once_is_found() -> None:
    Slim.create("o-1")
    finish("o-1")
    die(Slim.pack, "o-1", also_from=[Slim.send.succeeded], lock_for=timedelta(microseconds=1))
    assert list(Slim.pack.due_ids()) == []
    assert indexed() == {"o-1": "slim#11#0"}


def test_a_finished_task_that_is_asked_for_again_is_pending_in_the_index() -> None:
    Slim.create("o-1")
    finish("o-1")
    assert Slim.create_or_merge("o-1").effect == "restarted"
    assert [task.task_id for task in Slim.pack.pending.query()] == ["o-1"]
    with Slim.pack.start("o-1"):
        assert Slim.create_or_merge("o-1").effect == "queued"
    succeed(Slim.send, "o-1")
    assert [task.task_id for task in Slim.pack.pending.query()] == ["o-1"]


def test_a_failed_and_an_ignored_task_stay_in_the_index() -> None:
    Slim.create_many(["failed", "ignored"])
    fail(Slim.pack, "failed")
    Slim.pack.ignore("ignored", reason="cancelled")
    assert indexed() == {"failed": "slim#12#0", "ignored": "slim#13#0"}
    Slim.pack.reopen("ignored")
    assert indexed()["ignored"] == "slim#10#0"


def test_a_task_that_repeats_leaves_the_index_after_its_last_occurrence(clock: StoppedClock) -> None:
    Part.create("nightly", repeat=Repeat.rrule("FREQ=DAILY;COUNT=2"))
    for left in (1, 0):
        succeed(Part.make, "nightly")
        assert len(index_entries(Part)) == left
        clock.advance(timedelta(days=1))


def test_the_end_of_a_finished_task_hands_on_the_turn_of_its_group_and_counts_for_its_parent() -> None:
    Part.create_many({"task_id": task_id, "group": "customer-7"} for task_id in ("a", "b"))
    Slim.create("o-1")
    with Slim.pack.start("o-1") as ctx:
        ctx.create(Part, "part", wait=True)
    succeed(Part.make, "a", "part")
    assert (Part.group("customer-7").turn, [task.task_id for task in Slim.send.due()]) == ("b", ["o-1"])
    assert {entry["task_id"]["S"] for entry in index_entries(Part)} == {"b", "o-1"}


def test_a_success_in_a_transaction_and_those_of_a_batch_leave_the_index() -> None:
    Part.create_many(f"p-{number}" for number in range(8))
    with Part.make.start("p-0") as ctx, ctx.transaction(succeed=True):
        pass
    assert (len(Part.make.run_all(nothing, threads=4).succeeded), index_entries(Part)) == (7, [])


def test_finished_tasks_are_deleted_with_their_use_case() -> None:
    Slim.create_many(["done", "new", "other"])
    finish("done", "other")
    Slim.delete_task("other")
    assert sorted(Slim.delete_use_case().succeeded) == ["done", "new"]


def test_the_command_line_knows_tasks_that_are_not_in_the_index() -> None:
    Slim.create_many(["done", "new"])
    finish("done")
    assert run("show", "done", of=HERE + "Slim").lines[0] == "Slim done: send.succeeded"
    exported = run("export", of=HERE + "Slim")
    assert {json.loads(line)["task_id"] for line in exported.lines} == {"done", "new"}
    assert "status_key" not in exported.out
    listed = run("list", "send.succeeded", of=HERE + "Slim")
    assert (listed.out, "index_succeeded=False" in listed.err) == ("", True)
    counted = run("status", of=HERE + "Slim")
    assert counted.lines[0].startswith("Slim: 1 task in ")
    assert counted.lines[0].endswith(", without succeeded ones")
    assert "succeeded" not in "".join(counted.lines[1:])
    assert "status_key" not in stored(Slim, "done")


def test_only_a_task_that_has_succeeded_may_lack_its_index_key() -> None:
    Slim.create("lost")
    change(Slim, "lost", status_key=None)
    with pytest.raises(TaskError, match=r"status_key \(it is missing\)"):
        Slim.get_task("lost")
    succeed(Slim.pack, "lost")
    assert indexed() == {"lost": "slim#20#0"}
