"""The number of shards changes while old and new programs run side by side."""

from typing import Any

import pytest

from pynamodb_tracker import Step, UseCase
from tests.support.declaring import refusal
from tests.support.shop import AppTask

pytestmark = pytest.mark.usefixtures("table", "clock")

IDS = [f"l-{number}" for number in range(12)]


def program(**options: Any) -> Any:
    """Return the use case as a program declares it."""

    class Letter(AppTask):
        use_case_id = UseCase("sharded-letter", **options)

        write = Step(10)
        send = Step(20)

    return Letter


def shards_of(letter: Any) -> set[str]:
    return {task.status_key.rpartition("#")[2] for task in letter.scan(letter.use_case_id == "sharded-letter")}


def test_a_program_that_reads_more_shards_than_it_writes_finds_the_tasks_of_one_that_writes_them() -> None:
    program(status_shards=8).create_many(IDS)
    before = program(status_shards=1, read_shards=8)
    assert len(shards_of(before)) > 1
    state = before.write.pending
    assert sorted(task.task_id for task in state.query()) == sorted(IDS)
    pages = [state.page(limit=7)]
    pages.append(state.page(limit=7, cursor=pages[0].cursor))
    assert sorted(task.task_id for page in pages for task in page.tasks) == sorted(IDS)
    assert (state.count(), before.counts()[state], list(before.write.next_due())) == (12, 12, [state])
    assert sorted(before.write.due_ids()) == sorted(IDS)
    assert sorted(before.write.run_all(lambda _: None).succeeded) == sorted(IDS)
    assert shards_of(before) == {"0"}  # a task moves when its status changes


def test_a_program_that_writes_more_shards_finds_the_tasks_of_one_that_only_reads_them() -> None:
    program(status_shards=1, read_shards=8).create_many(IDS)
    after = program(status_shards=8)
    assert (sorted(after.write.run_all(lambda _: None).succeeded), after.send.pending.count()) == (sorted(IDS), 12)


def test_tasks_that_ended_before_the_number_was_reduced_are_found_while_read_shards_covers_them() -> None:
    ended = program(status_shards=8)
    ended.create_many({"task_id": task_id, "state": ended.send.succeeded} for task_id in IDS)
    reduced = program(status_shards=1, read_shards=8)
    assert reduced.send.succeeded.count() == len(list(reduced.send.succeeded.query())) == 12
    too_early = program(status_shards=1)
    assert too_early.send.succeeded.count() < too_early.counts()[too_early.send.succeeded] == 12


@pytest.mark.parametrize("read", [0, 8.0, True, "8", 10_001])
def test_read_shards_is_a_whole_number_from_1(read: Any) -> None:
    assert "read_shards" in refusal(use_case_id=UseCase("order", read_shards=read))


def test_fewer_shards_are_not_read_than_written() -> None:
    told = refusal(use_case_id=UseCase("order", status_shards=8, read_shards=4))
    assert told.startswith("Order")
    assert "queries would miss tasks" in told
