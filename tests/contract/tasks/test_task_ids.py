"""Task ids: any text of 1 to 1024 bytes, and nothing else."""

import pytest

from pynamodb_tracker import Report, Step, UseCase
from tests.contract.odd_values import KB, STATE, STEP, Colour, Member, Text, columns, nothing
from tests.support.engines import only_dynoxide
from tests.support.shop import AppTask, Order, Parcel

pytestmark = pytest.mark.usefixtures("table")


class Long(AppTask):
    """The longest name, and off-row data, whose keys are even longer."""

    use_case_id = UseCase("é" * 126 + "xyz", status_shards=10_000, max_inline_data=0)

    work = Step(990)


GOOD = [
    *("o-1", "0", "None", "a#b", "#", "order#10#0", "'\"\\", "/", "a//b/..", "die Straße", "道", "e\u0301", "é"),
    *(" ", "\t", "\n", "\r\n\t", "a\nb", "\0", "a\0b", "\0" * 1024, "\u200b", "\u2028", "\ufeff", "\ufffe", "\uffff"),
    *("😀", "\U0010ffff", "x" * 1024, "é" * 512, "😀" * 256, "道" * 341 + "x", "x" + "é" * 511 + "y"),
    *(Text("o-1"), Colour.RED, Member.RED),
]


@only_dynoxide
@pytest.mark.parametrize("task_id", GOOD, ids=ascii)
def test_a_task_with_any_id_works_and_its_id_reads_back_equal(task_id: str) -> None:
    assert Order.create(task_id, data={"a": "x" * 2 * KB}).task_id == task_id
    assert Order.get_task(task_id).task_id == Order.get(task_id).task_id == task_id
    assert STEP.ignore(task_id, reason="x").task_id == STEP.reopen(task_id).task_id == task_id
    assert [task.task_id for task in STATE.page(limit=1).tasks] == [task_id]
    assert list(Order.create_many([task_id]).refused) == [task_id]
    assert STEP.run(task_id, lambda ctx: ctx.task.task_id) == task_id
    assert Order.ship.run_all(nothing) == Report(succeeded=[task_id])
    assert Order.get_task(task_id).data == {"a": "x" * 2 * KB}
    Order.delete_task(task_id)
    assert sum(Order.counts().values()) == 0


def test_ids_that_look_alike_are_different_tasks() -> None:
    task_ids = ["é", "e\u0301", "E", "e", "e ", " e"]
    Parcel.create_many(task_ids)
    assert sorted(task.task_id for task in Parcel.sort.pending.query()) == sorted(task_ids)


@columns("task_id")(["x" * 1024, "é" * 512])
def test_the_longest_keys_fit_together(task_id: str) -> None:
    Long.create(task_id, data={"a": 1})
    with Long.work.start(task_id) as ctx:
        ctx.task.data["b"] = 2
    task = Long.get_task(task_id)
    assert (task.task_id, task.data, task.state) == (task_id, {"a": 1, "b": 2}, Long.work.succeeded)
    Long.delete_task(task_id)
