"""Rows that cannot be read as declared: another program changed them, or an attribute has another type now."""

import json
import pickle
from collections.abc import Callable
from copy import copy, deepcopy
from datetime import timedelta
from typing import Any

import pytest
from pynamodb.attributes import Attribute

from pynamodb_tracker import Step, TaskAlreadyExistsError, TrackerError, UseCase, ValueNotStorableError
from pynamodb_tracker.clock import StoppedClock
from pynamodb_tracker.model.row import damages_of, readable
from tests.contract.odd_rows import Odd
from tests.contract.odd_values import columns, nothing
from tests.support.rows import change, nested, stored
from tests.support.shop import AppTask, created
from tests.support.workers import die

pytestmark = pytest.mark.usefixtures("table", "task")
CREATED = Odd, "o-1"

UNREADABLE: dict[str, Any] = {
    "number": {"S": "x"},
    "raw_list": {"N": "5"},
    "json": {"S": "{no json"},
    "when": {"S": "yesterday"},
    "raw_map": {"M": {"self": {"N": "1"}}},
}


@columns("name")([*UNREADABLE, "data"])
def test_a_block_that_touches_an_unreadable_attribute_fails_and_the_error_names_it(name: str) -> None:
    change(Odd, "o-1", **{name: UNREADABLE.get(name, {"N": "5"})})
    with pytest.raises(TrackerError, match=f"'o-1' cannot be read: {name}") as raised, Odd.work.start("o-1") as ctx:
        getattr(ctx.task, name)
    assert raised.value.__cause__ is not None
    task = Odd.get_task("o-1")
    assert task.state == Odd.work.failed
    assert name in task.errors[-1].message


@columns("name")([*UNREADABLE, "data"])
def test_a_block_that_does_not_touch_an_unreadable_attribute_succeeds_and_leaves_it_as_it_is(name: str) -> None:
    value = UNREADABLE.get(name, {"N": "5"})
    change(Odd, "o-1", **{name: value})
    with Odd.work.start("o-1") as ctx:
        ctx.task.text = "done"
    assert (stored(Odd, "o-1")[name], Odd.get_task("o-1").text) == (value, "done")


def test_a_block_can_replace_what_cannot_be_read() -> None:
    change(Odd, "o-1", number={"S": "x"}, data={"N": "5"})
    with Odd.work.start("o-1") as ctx:
        ctx.task.number = 7
        ctx.task.data = {"a": 1}
    assert (Odd.get_task("o-1").number, Odd.get_task("o-1").data) == (7, {"a": 1})


@columns("name")([*UNREADABLE])
def test_a_row_that_cannot_be_read_can_be_deleted(name: str) -> None:
    change(Odd, "o-1", **{name: UNREADABLE[name]})
    Odd.delete_task("o-1")
    assert sum(Odd.counts().values()) == 0


def test_a_row_whose_status_cannot_be_read_says_so() -> None:
    change(Odd, "o-1", status={"S": "10"})
    (task,) = Odd.scan()
    assert repr(task) == "<Odd 'o-1', unreadable: status>"


@columns("name")([*UNREADABLE, "data"])
def test_a_row_with_an_unreadable_attribute_is_read_and_raises_where_it_is_touched(name: str) -> None:
    change(Odd, "o-1", **{name: UNREADABLE.get(name, {"N": "5"})})
    (queried,), (due,) = Odd.work.pending.query(), Odd.work.due()
    (paged,) = Odd.work.pending.page().tasks
    for task in (Odd.get_task("o-1"), queried, due, paged):
        assert task.state == Odd.work.pending
        for _ in range(2):
            with pytest.raises(TrackerError, match=f"'o-1' cannot be read: {name}"):
                getattr(task, name)
        assert repr(task) == f"<Odd 'o-1' work pending, attempt 0, unreadable: {name}>"


def test_a_row_with_an_unreadable_attribute_is_ignored_and_reopened_like_any_other() -> None:
    change(Odd, "o-1", number=UNREADABLE["number"])
    Odd.work.ignore("o-1", reason="correct it")
    assert Odd.work.reopen("o-1").state == Odd.work.pending
    change(Odd, "o-1", number={"N": "5"})
    assert Odd.get_task("o-1").number == 5


@columns("name")([*UNREADABLE, "data"])
def test_a_block_can_remove_what_cannot_be_read(name: str) -> None:
    change(Odd, "o-1", **{name: UNREADABLE.get(name, {"N": "5"})})
    with Odd.work.start("o-1") as ctx:
        setattr(ctx.task, name, None)
    assert stored(Odd, "o-1").get(name) == ({"S": "{}"} if name == "data" else None)


ENDLESS = {
    "slot": {"S": "A"},
    "version": {"S": "x"},
    "pieces": {"N": "999999999"},
    "size": {"N": "1"},
    "packed": {"BOOL": False},
}


@columns("pointer")(
    [
        {},
        {"slot": {"N": "1"}},
        {"slot": {"S": "A"}, "version": {"S": "x"}, "pieces": {"S": "x"}},
        {**ENDLESS, "pieces": {"N": "37"}},
        {**ENDLESS, "pieces": {"N": "-1"}},
        ENDLESS,
    ]
)
def test_a_pointer_to_data_that_cannot_be_read_raises_only_where_the_data_is_touched(pointer: Any) -> None:
    change(Odd, "o-1", data={"M": pointer})
    with pytest.raises(TrackerError, match="'o-1' cannot be read: data"), Odd.work.start("o-1") as ctx:
        len(ctx.task.data)
    with Odd.work.start("o-1") as ctx:
        ctx.task.data = {"text": "x" * 5_000}
    assert Odd.get_task("o-1").data == {"text": "x" * 5_000}


@columns("depth")([1, 100_000])
def test_data_that_is_no_json_raises_where_it_is_touched_and_can_be_replaced(depth: int) -> None:
    change(Odd, "o-1", data={"S": "[" * depth})
    with pytest.raises(TrackerError, match="'o-1' cannot be read: data"):
        len(Odd.get_task("o-1").data)
    with Odd.work.start("o-1") as ctx:
        ctx.task.data = {"a": 1}
    assert Odd.get_task("o-1").data == {"a": 1}


def test_json_of_other_programs_that_is_nested_deeper_than_ours_is_read_and_stays_as_it_is() -> None:
    text = f'{{"a":{json.dumps(nested(300))}}}'
    change(Odd, "o-1", data={"S": text}, json={"S": text})
    with Odd.work.start("o-1") as ctx:
        assert ctx.task.data == ctx.task.json == {"a": nested(300)}
        ctx.task.text = "new"
    assert {name: stored(Odd, "o-1")[name]["S"] for name in ("data", "json", "text")} == {
        "data": text, "json": text, "text": "new"
    }  # fmt: skip


@created(text="x")
@columns("copied")([copy, deepcopy, lambda row: pickle.loads(pickle.dumps(row))])  # noqa: S301 - its own
def test_a_copy_of_a_row_has_the_same_unreadable_attributes(copied: Callable[[Odd], Odd]) -> None:
    change(Odd, "o-1", number=UNREADABLE["number"])
    task = copied(Odd.get_task("o-1"))
    assert task.text == "x"
    with pytest.raises(TrackerError, match="'o-1' cannot be read: number"):
        task.number  # noqa: B018 - it raises


class Lossy(Attribute[str]):
    """An attribute of the user's own that cannot read all that it writes."""

    attr_type = "S"

    def serialize(self, value: str) -> str:
        return value

    def deserialize(self, value: str) -> str:
        if value == "lost":
            raise RuntimeError("not this one")
        return value


class Losing(AppTask):
    use_case_id = UseCase("losing")

    work = Step(10)

    word = Lossy(null=True)


def test_a_value_that_does_not_read_back_creates_no_task() -> None:
    with pytest.raises(ValueNotStorableError, match=r"Losing.word cannot be stored: .*not this one") as raised:
        Losing.create("l-1", word="lost")
    assert (raised.value.task_id, raised.value.attribute, sum(Losing.counts().values())) == ("l-1", "word", 0)


@columns("name", "value")([("blockers", {"S": "x"}), ("awaited_signals", {"S": "paid"}), ("due_time", {"S": "0000"})])
def test_what_a_task_waits_for_is_not_taken_for_nothing_if_it_cannot_be_read(name: str, value: Any) -> None:
    change(Odd, "o-1", **{name: value})
    (task,) = Odd.scan()
    with pytest.raises(TrackerError, match=f"'o-1' cannot be read: {name}"):
        task.waits_for  # noqa: B018 - it raises


@created(text="x")
def test_a_row_as_far_as_it_can_be_read_has_no_value_for_damaged_attributes_of_the_tracker() -> None:
    change(Odd, "o-1", number=UNREADABLE["number"], worker={"N": "1"})
    (task,) = Odd.scan()
    view = readable(task)
    assert (view.text, view.worker, readable(view) is view) == ("x", None, True)
    assert damages_of(view).keys() == damages_of(task).keys() == {"number", "worker"}
    assert repr(view).endswith(", unreadable: worker, number>")
    for row, name in ((task, "worker"), (task, "number"), (view, "number")):
        with pytest.raises(TrackerError, match=f"'o-1' cannot be read: {name}"):
            getattr(row, name)


def test_a_create_meets_a_row_whose_creation_cannot_be_read() -> None:
    change(Odd, "o-1", creation={"N": "1"})
    with pytest.raises(TaskAlreadyExistsError):
        Odd.create("o-1")


def test_due_shows_a_task_whose_last_error_cannot_be_read() -> None:
    Odd.create("bad")
    change(Odd, "bad", last_error={"N": "1"})
    assert {task.task_id for task in Odd.work.due()} == {"bad", "o-1"}
    assert list(Odd.work.due(error_contains="1")) == []


BROKEN: dict[str, Any] = {
    "errors": {"S": "x"},
    "last_error": {"N": "1"},
    "worker": {"N": "1"},
    "update_time": {"S": "yesterday"},
    "create_time": {"S": "yesterday"},
    "lock_expire_time": {"S": "tomorrow"},
}
"""The tracker's own attributes, as only a manual change writes them."""


@columns("name")([*BROKEN])
def test_an_attribute_of_the_tracker_that_cannot_be_read_is_not_taken_for_absent(name: str) -> None:
    change(Odd, "o-1", **{name: BROKEN[name]})
    (task,) = Odd.work.pending.query()
    with pytest.raises(TrackerError, match=f"'o-1' cannot be read: {name}"):
        getattr(task, name)
    assert (task.task_id, task.attempt) == ("o-1", 0)


@columns("name")([*BROKEN])
def test_a_damaged_abandoned_row_does_not_stop_others(name: str, clock: StoppedClock) -> None:
    Odd.create_many(["bad", "good"])
    for task_id in ("bad", "good"):
        die(Odd.work, task_id)
    Odd.create("waits")
    change(Odd, "bad", **{name: BROKEN[name]})
    clock.advance(timedelta(hours=1))
    succeeded = set(Odd.work.run_all(nothing).succeeded)
    assert succeeded >= {"good", "waits"}
    assert ("bad" in succeeded) == (name in {"worker", "update_time"})  # the claim writes these


def test_an_index_entry_with_an_unreadable_time_comes_first() -> None:
    Odd.create("bad")
    change(Odd, "bad", due_time={"S": "0000"})
    assert Odd.work.pending in Odd.work.next_due()
    assert Odd.work.run_all(nothing).succeeded == ["bad", "o-1"]
