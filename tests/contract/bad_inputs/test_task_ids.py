"""Task ids: text of 1 to 1024 bytes, whatever is in it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from pynamodb_tracker import Step, UseCase
from tests.contract.odd_values import KB, STATE, STEP, Colour, Member, Plain, Text, columns, nothing, refuses
from tests.support.shop import AppTask, Order

pytestmark = pytest.mark.usefixtures("table")


class Long(AppTask):
    """The longest name, and data that lies beside the row, under keys that are longer still."""

    use_case_id = UseCase("é" * 126 + "xyz", status_shards=10_000, data_in_row=0)

    work = Step(990)


TAKES_AN_ID: list[Callable[[Any], object]] = [
    Order.create,
    lambda task_id: Order.create_many([{"task_id": task_id}]),
    Order.get_task,
    Order.delete_task,
    STEP.start,
    lambda task_id: STEP.run(task_id, nothing),
    STEP.reopen,
    lambda task_id: STEP.ignore(task_id, reason="x"),
]

NO_TEXT = [None, 1, 1.5, True, b"o-1", bytearray(b"o-1"), ["o-1"], ("o-1", "order"), {"o-1"}, Plain.A, object(), Order]

BAD_TEXT = [
    ("", "a task id has 1 to 1024 bytes, not 0: ''"),
    ("x" * 1025, "a task id has 1 to 1024 bytes, not 1025"),
    ("x" + "é" * 512, "a task id has 1 to 1024 bytes, not 1025"),
    ("😀" * 256 + "x", "a task id has 1 to 1024 bytes, not 1025"),
    ("x" * 50_000_000, "a task id has 1 to 1024 bytes, not 50000000"),
    ("\ud800", "the task id .* has a lone surrogate"),
    ("a\udfffb", "the task id .* has a lone surrogate"),
    ("\ud83d\ude00", "the task id .* has a lone surrogate"),
]

HINTS = [
    (1, "1: write '1'$"),
    (uuid.UUID(int=1), r"UUID\(.*\): write '00000000-0000-0000-0000-000000000001'$"),
    (None, "None$"),
    (True, "True$"),
    (b"o-1", "b'o-1'$"),
    (["o-1"], r"\['o-1'\]$"),
    (10**5000, "a int$"),
    (["x"] * 10**6, r"\['x', .*\.\.\.$"),
]

GOOD = [
    *(" ", "\t", "\n", "\r\n", "\0", "\0" * 1024, "#", "order#10#0", "/", "a//b/..", "😀", "\u2028", "\ufffe"),
    *("\U0010ffff", "x" * 1024, "é" * 512, "😀" * 256, "x" + "é" * 511 + "y", Text("o-1"), Colour.RED, Member.RED),
]


@columns("task_id")(NO_TEXT)
def test_what_is_no_text_is_no_task_id(task_id: object) -> None:
    for method in TAKES_AN_ID:
        refuses(partial(method, task_id), "a task id is text, not ")


@columns("task_id", "message")(BAD_TEXT)
def test_text_that_is_no_task_id_is_refused(task_id: str, message: str) -> None:
    for method in [*TAKES_AN_ID, lambda task_id: Order.create_many([task_id])]:
        refuses(partial(method, task_id), message)


@columns("task_id", "message")(HINTS)
def test_only_what_may_be_meant_is_told_to_be_written_as_a_task_id(task_id: Any, message: str) -> None:
    refuses(lambda: Order.create(task_id), f"a task id is text, not {message}")


@columns("task_id", "message")([BAD_TEXT[0]])
def test_get_refuses_what_is_no_task_id_too(task_id: str, message: str) -> None:
    refuses(lambda: Order.get(task_id), message)


@columns("task_id")(GOOD)
def test_a_task_id_reads_back_equal_wherever_it_is_told(task_id: str) -> None:
    assert Order.create(task_id, data={"a": "x" * 2 * KB}).task_id == task_id
    assert Order.get_task(task_id).task_id == Order.get(task_id).task_id == task_id
    assert STEP.ignore(task_id, reason="x").task_id == STEP.reopen(task_id).task_id == task_id
    assert [task.task_id for task in STATE.page(limit=1).tasks] == [task_id]
    assert list(Order.create_many([task_id]).refused) == [task_id]
    assert STEP.run(task_id, lambda ctx: ctx.task.task_id) == task_id
    assert Order.get_task(task_id).data == {"a": "x" * 2 * KB}
    Order.delete_task(task_id)
    assert sum(Order.counts().values()) == 0


@columns("task_id")(["x" * 1024, "é" * 512])
def test_the_longest_keys_fit_together(task_id: str) -> None:
    Long.create(task_id, data={"a": 1})
    with Long.work.start(task_id) as ctx:
        ctx.task.data["b"] = 2
    task = Long.get_task(task_id)
    assert (task.task_id, task.data, task.state) == (task_id, {"a": 1, "b": 2}, Long.work.succeeded)
    Long.delete_task(task_id)
