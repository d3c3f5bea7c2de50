"""Finding tasks by the value of an attribute."""

import asyncio
import base64
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pynamodb.attributes import NumberAttribute, UnicodeAttribute

from pynamodb_tracker import DefinitionError, FindBy, Step, Task, UseCase, ValueNotStorableError
from pynamodb_tracker.clock import stamp
from pynamodb_tracker.testing import StoppedClock
from tests.support.recorder import recorded
from tests.support.rows import put, stored

pytestmark = pytest.mark.usefixtures("table")


class DeskTask(Task):
    class Meta:
        table_name = "desk-with-customers"
        region = "us-east-1"

    customer = UnicodeAttribute(null=True, attr_name="for customer")

    reference = UnicodeAttribute(null=True)

    by_customer = FindBy(customer, index_name="by-customer")
    by_reference = FindBy(reference)


class Quote(DeskTask):
    use_case_id = UseCase("quote", keep_for=timedelta(days=1))

    work = Step(10)
    send = Step(20)


class Complaint(DeskTask):
    use_case_id = UseCase("complaint")

    work = Step(10)


TABLES = [DeskTask]


def assign(task_id: str, customer: str | None) -> None:
    with Quote.work.start(task_id) as ctx:
        ctx.task.customer = customer


def ids(found: Any) -> list[str]:
    return [task.task_id for task in found]


def test_50_tasks_of_several_use_cases_are_one_query_and_one_batch_each_with_its_own_state() -> None:
    for number in range(25):
        Quote.create(f"q-{number}", customer="c-7", data={"n": number})
        Complaint.create(f"q-{number}", customer="c-7")
        Quote.create(f"other-{number}", customer="c-8")
    Quote.work.run("q-3", lambda _: None)
    with pytest.raises(ZeroDivisionError):
        Complaint.work.run("q-4", lambda _: 1 // 0)
    with recorded(DeskTask) as requests:
        found = list(DeskTask.by_customer.query("c-7"))
    assert requests.operations == ["Query", "BatchGetItem"]
    assert {(type(task), task.task_id) for task in found} == {
        (case, f"q-{number}") for number in range(25) for case in (Quote, Complaint)
    }
    assert len(found) == 50
    states = {(type(task), task.task_id): task.state for task in found}
    assert (states[Quote, "q-3"], states[Complaint, "q-4"]) == (Quote.send.pending, Complaint.work.failed)
    assert {task.data["n"] for task in found if isinstance(task, Quote)} == {*range(25)}
    with recorded(DeskTask) as requests:
        assert ids(Complaint.by_customer.query("c-7", state=Complaint.work.failed, limit=1)) == ["q-4"]
    assert requests.operations == ["Query", "BatchGetItem"]
    (asked,) = requests[1].body["RequestItems"].values()
    assert len(asked["Keys"]) == 25  # those of the other use case are not read


def test_a_value_that_changes_in_a_run_is_found_once_the_success_is_recorded() -> None:
    Quote.create("q-1", customer="c-1")
    with Quote.work.start("q-1") as ctx:
        ctx.task.customer = "c-2"
        assert (ids(Quote.by_customer.query("c-1")), ids(Quote.by_customer.query("c-2"))) == (["q-1"], [])
    assert (ids(Quote.by_customer.query("c-1")), ids(Quote.by_customer.query("c-2"))) == ([], ["q-1"])


def test_the_window_is_of_the_creation_and_the_limit_counts_what_is_returned(stopped_clock: StoppedClock) -> None:
    begun = stopped_clock.now()
    for number in range(6):
        Quote.create(f"q-{number}", customer="c-1")
        stopped_clock.advance(timedelta(minutes=1))
    assign("q-1", "c-1")
    assign("q-4", "c-1")
    query, at = Quote.by_customer.query, [begun + timedelta(minutes=number) for number in range(6)]
    assert ids(query("c-1", since=at[1], until=at[3])) == ["q-1", "q-2"]
    assert (ids(query("c-1", since=at[4])), ids(query("c-1", until=at[1]))) == (["q-4", "q-5"], ["q-0"])
    assert ids(query("c-1", until=datetime.min.replace(tzinfo=UTC))) == []
    assert ids(query("c-1", newest_first=True, limit=2)) == ["q-5", "q-4"]
    assert ids(query("c-1", state=Quote.send.pending, limit=2)) == ["q-1", "q-4"]
    Quote.send.run("q-1", lambda _: None)
    stopped_clock.advance(timedelta(days=2))
    assert ids(query("c-1", limit=2)) == ["q-0", "q-2"]  # q-1 has expired


def test_pages_go_on_behind_the_last_task_and_know_when_they_end(stopped_clock: StoppedClock) -> None:
    begun = stopped_clock.now()
    for number in range(5):
        Quote.create(f"q-{number}", customer="c-1")
        stopped_clock.advance(timedelta(seconds=1))
    for state in (None, Quote.work.pending):
        found, cursor = list[list[str]](), None
        while not found or (cursor and len(found) < 3):
            page = Quote.by_customer.page("c-1", limit=2, cursor=cursor, state=state)
            found.append(ids(page.tasks))
            cursor = page.cursor
        assert (found, cursor) == ([["q-0", "q-1"], ["q-2", "q-3"], ["q-4"]], None)
    assert Quote.by_customer.page("c-1", limit=5).cursor is None
    first = Quote.by_customer.page("c-1", limit=4)
    desk: Any = DeskTask.by_customer
    pending = desk.page("c-1", limit=4, state=Quote.work.pending)
    for other in (
        lambda: desk.page("c-1", cursor=pending.cursor, state=Complaint.work.pending),  # the same code
        lambda: Quote.by_customer.page("c-2", cursor=first.cursor),
        lambda: Quote.by_customer.page("c-1", cursor=first.cursor, state=Quote.work.pending),
        lambda: Quote.by_customer.page("c-1", cursor=first.cursor, newest_first=True),
        lambda: Quote.by_customer.page("c-1", cursor=first.cursor, since=begun),
        lambda: Quote.by_customer.page("c-1", cursor=first.cursor, until=stopped_clock.now()),
        lambda: Quote.by_reference.page("c-1", cursor=first.cursor),
        lambda: DeskTask.by_customer.page("c-1", cursor=first.cursor),
        lambda: Quote.by_customer.page("c-1", cursor="x"),
    ):
        with pytest.raises(ValueError, match="cursor"):
            other()


def test_a_cursor_goes_on_in_the_same_window_of_another_time_zone(stopped_clock: StoppedClock) -> None:
    begun = stopped_clock.now()
    for number in range(2):
        Quote.create(f"q-{number}", customer="c-1")
        stopped_clock.advance(timedelta(seconds=1))  # an index has no order of those of one time
    cursor = Quote.by_customer.page("c-1", limit=1, since=begun).cursor
    there = begun.astimezone(timezone(timedelta(hours=2)))
    assert ids(Quote.by_customer.page("c-1", since=there, cursor=cursor).tasks) == ["q-1"]


def test_a_cursor_that_points_outside_its_window_is_refused(stopped_clock: StoppedClock) -> None:
    for number in range(2):
        Quote.create(f"q-{number}", customer="c-1")
    now, later = stopped_clock.now(), stopped_clock.now() + timedelta(seconds=1)
    windows: list[tuple[Any, str]] = [({"since": now}, "1"), ({"until": later}, stamp(later))]
    for window, time in windows:
        cursor = Quote.by_customer.page("c-1", limit=1, **window).cursor
        assert cursor is not None
        assert len(Quote.by_customer.page("c-1", limit=1, cursor=cursor, **window).tasks) == 1
        scan, (_, *key) = json.loads(base64.urlsafe_b64decode(cursor))
        forged = base64.urlsafe_b64encode(json.dumps([scan, [time, *key]]).encode()).decode()
        with pytest.raises(ValueError, match="It points outside the window"):
            Quote.by_customer.page("c-1", limit=1, cursor=forged, **window)


def test_both_are_awaited_too() -> None:
    async def read() -> tuple[list[str], list[str]]:
        page = await Quote.by_customer.apage("c-1")
        return ids(page.tasks), [task.task_id async for task in DeskTask.by_customer.aquery("c-1")]

    Quote.create("q-1", customer="c-1")
    assert asyncio.run(read()) == (["q-1"], ["q-1"])


def test_an_empty_text_is_stored_as_no_value() -> None:
    assert Quote.create("q-1", customer="").customer is None
    Quote.create("q-2", customer="c-1")
    assign("q-2", "")
    Quote.create_many([{"task_id": "q-3", "customer": ""}], threads=2)
    Quote.create_or_merge("q-4", customer="c-1")
    Quote.create_or_merge("q-4", merge=lambda task, _: setattr(task, "customer", ""))
    for number in range(1, 5):
        Quote.work.run(f"q-{number}", lambda _: None, also_from=(Quote.send.pending,)) if number != 2 else None
        assert Quote.get_task(f"q-{number}").customer is None
    assert ids(Quote.by_customer.query("c-1")) == []


def test_a_value_that_is_no_key_of_an_index_is_refused_by_every_write() -> None:
    long = "é" * 513
    with pytest.raises(ValueNotStorableError, match=r"customer cannot be stored: a FindBy key has.*1,026"):
        Quote.create("q-1", customer=long)
    assert ids_of(Quote.create_many([{"task_id": "q-1", "customer": long}], threads=2).refused) == ["q-1"]
    Quote.create("q-1", customer="é" * 512)
    with pytest.raises(ValueNotStorableError, match="customer"):
        Quote.create_or_merge("q-1", merge=lambda task, _: setattr(task, "customer", long))
    with pytest.raises(ValueNotStorableError, match="customer"):
        assign("q-1", long)
    for value in ("", long):
        with pytest.raises(ValueNotStorableError, match="or is removed"):
            Quote.get_task("q-1").update([Quote.customer.set(value)])
    assert ids(Quote.by_customer.query("é" * 512, state=Quote.work.ignored)) == ["q-1"]


def ids_of(refused: Any) -> list[str]:
    return [getattr(each, "task_id", each) for each in refused]


def test_an_entry_that_is_older_than_its_row_is_left_out(
    monkeypatch: pytest.MonkeyPatch, stopped_clock: StoppedClock
) -> None:
    Quote.create("q-1", customer="c-1")
    Quote.create("q-2", customer="c-1")
    Quote.create("q-3", customer="c-1")
    table = DeskTask.tracker.connection()
    stale = table.query("c-1", index_name="by-customer")
    assign("q-1", "c-2")
    Quote.delete_task("q-2")
    Quote.delete_task("q-3")
    stopped_clock.advance(timedelta(seconds=1))
    Quote.create("q-3", customer="c-1")
    fresh = table.query("c-1", index_name="by-customer")
    monkeypatch.setattr(table, "query", query := lambda *_, **__: stale)
    query.__name__ = "query"
    assert ids(Quote.by_customer.query("c-1")) == []
    stale["Items"] += fresh["Items"]
    assert ids(Quote.by_customer.query("c-1")) == ["q-3"], "created again, and found once"


def test_wrong_arguments_are_refused_before_a_request() -> None:
    for value in ("", "x" * 1025, 7):
        with pytest.raises((TypeError, ValueError), match="customer"):
            Quote.by_customer.query(value)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"is not a state of Quote: write state=Order\.ship\.failed"):
        Quote.by_customer.query("c-1", state=Complaint.work.failed)  # type: ignore[arg-type]


def test_wrong_declarations_are_refused() -> None:
    for attribute in (NumberAttribute(), Task.worker):
        with pytest.raises(DefinitionError, match="of your own that is stored as text"):
            FindBy(attribute)
    with pytest.raises(DefinitionError, match="no use case declares again"):

        class Other(DeskTask):
            use_case_id = UseCase("other")
            work = Step(10)
            customer = UnicodeAttribute(null=True, attr_name="for customer")

    class Meta:
        table_name = "elsewhere"

    with pytest.raises(DefinitionError, match="needs index_name="):
        type("Odd", (Task,), {"Meta": Meta, "x": (x := UnicodeAttribute(attr_name="é")), "by_x": FindBy(x)})
    with pytest.raises(DefinitionError, match="an attribute of the table's class"):
        type("Odd", (Task,), {"Meta": Meta, "by_x": FindBy(UnicodeAttribute())})


def test_a_row_whose_use_case_is_not_imported_is_found_as_a_task_of_the_table() -> None:
    Quote.create("q-1", customer="c-1", data={"text": "x" * 2000})
    put(DeskTask, {**stored(Quote, "q-1"), "use_case_id": {"S": "unknown"}})
    assert [type(task) for task in DeskTask.by_customer.query("c-1")] == [Quote, DeskTask]
    assert ids(Quote.by_customer.query("c-1")) == ["q-1"]
