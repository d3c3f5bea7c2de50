"""Answers that come in pieces, or are cut short by Ctrl-C: what an engine or a person does seldom, done on purpose."""

from typing import Any

import pytest

from tests.support.engines import empty_tables, opened
from tests.support.shop import AppTask, Parcel
from tests.support.through import Change, Dispatch, through

engine, table = opened(AppTask, scope="module"), empty_tables
pytestmark = pytest.mark.usefixtures("table")


def in_small_pages(send: Dispatch, operation: str, request: dict[str, Any]) -> dict[str, Any]:
    return send(operation, {**request, **({"Limit": 2} if operation in ("Query", "Scan") else {})})


def interrupting(number: int, *, applied: bool) -> Change:
    """Press Ctrl-C in the n-th update, before or after the server has applied it."""
    updates = []

    def change(send: Dispatch, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        updates.extend([request] if operation == "UpdateItem" else [])
        if operation != "UpdateItem" or len(updates) != number:
            return send(operation, request)
        if applied:
            send(operation, request)
        raise KeyboardInterrupt

    return change


@pytest.fixture
def five() -> set[str]:
    ids = {f"o-{number}" for number in range(5)}
    assert len(Parcel.create_many(sorted(ids)).succeeded) == len(ids)
    return ids


def test_a_query_reads_on_where_the_engine_cuts_its_answer(five: set[str]) -> None:
    with through(AppTask, in_small_pages):
        assert {task.task_id for task in Parcel.sort.pending.query()} == five


def test_a_count_adds_up_the_pages(five: set[str]) -> None:
    with through(AppTask, in_small_pages):
        assert Parcel.sort.pending.count() == len(five)


def test_counts_add_up_the_pages(five: set[str]) -> None:
    with through(AppTask, in_small_pages):
        assert Parcel.counts()[Parcel.sort.pending] == len(five)


def test_a_use_case_is_deleted_to_the_last_page(five: set[str]) -> None:
    with through(AppTask, in_small_pages):
        assert set(Parcel.delete_use_case().succeeded) == five


def test_rows_that_throttling_left_over_are_asked_for_again(five: set[str]) -> None:
    requests = []

    def half(send: Dispatch, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        if operation != "BatchGetItem":
            return send(operation, request)
        requests.append(request)
        (asked,) = request["RequestItems"].values()
        now, later = asked["Keys"][:2], asked["Keys"][2:]
        answer = send(operation, {**request, "RequestItems": {AppTask.Meta.table_name: {**asked, "Keys": now}}})
        return answer | {"UnprocessedKeys": {AppTask.Meta.table_name: {**asked, "Keys": later}} if later else {}}

    with through(AppTask, half):
        assert {task.task_id for task in Parcel.sort.pending.query()} == five
    assert len(requests) == 3


@pytest.mark.parametrize("applied", [False, True], ids=["before it arrived", "after it was applied"])
def test_ctrl_c_while_the_claim_is_sent_locks_nothing(applied: bool) -> None:  # noqa: FBT001 - a parameter
    Parcel.create("o-1")
    with through(AppTask, interrupting(1, applied=applied)), pytest.raises(KeyboardInterrupt), Parcel.sort.start("o-1"):
        pytest.fail("the block is not entered")
    task = Parcel.get_task("o-1")
    assert (task.state, task.attempt) == (Parcel.sort.pending, 0)


@pytest.mark.parametrize("applied", [False, True], ids=["before it arrived", "after it was applied"])
def test_ctrl_c_while_the_success_is_sent_loses_no_finished_work(applied: bool) -> None:  # noqa: FBT001 - a parameter
    Parcel.create("o-1")
    with through(AppTask, interrupting(2, applied=applied)), pytest.raises(KeyboardInterrupt):
        Parcel.sort.run("o-1", lambda ctx: ctx.task.data.update(paid=True))
    task = Parcel.get_task("o-1")
    assert (task.state, task.data) == (Parcel.sort.succeeded, {"paid": True})


def test_ctrl_c_while_the_failure_is_sent_leaves_when_it_is_recorded() -> None:
    Parcel.create("o-1")
    with through(AppTask, interrupting(2, applied=False)), pytest.raises(KeyboardInterrupt), Parcel.sort.start("o-1"):
        raise ValueError("no")
    assert Parcel.get_task("o-1").state == Parcel.sort.failed


def test_a_run_is_entered_once() -> None:
    Parcel.create("o-1")
    run = Parcel.sort.start("o-1")
    with run:
        pass
    with pytest.raises(RuntimeError, match=r"call start\(\) for each run"), run:
        pytest.fail("it was entered before")


def test_a_run_that_was_never_entered_cannot_be_left() -> None:
    with pytest.raises(RuntimeError, match="never entered"):
        Parcel.sort.start("o-1").__exit__(None, None, None)
