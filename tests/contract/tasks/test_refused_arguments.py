"""Wrong arguments: each is refused before any request, with a message that says what to write."""

import base64
import json
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, NoReturn, cast

import pytest

from pynamodb_tracker import RetryLater, State, Status, Task
from pynamodb_tracker import clock as clocks
from pynamodb_tracker.testing import local_table, stopped_clock
from tests.contract.odd_values import (
    EAST,
    INF,
    NAN,
    STATE,
    STEP,
    WEST,
    YEAR_1,
    YEAR_9999,
    Level,
    NoOffset,
    Plain,
    columns,
    nothing,
    refuses,
)
from tests.support.network import unreached
from tests.support.shop import AppTask, Order, Parcel

CASE: Any = Order
NOW = datetime(2026, 1, 1, tzinfo=UTC)


WRONG: dict[str, Callable[[], object]] = {
    "reopen_many of one text": lambda: STEP.reopen_many("o-1"),
    "reopen_many by nobody": lambda: STEP.reopen_many(["o-1"], by=" "),
    "ignore_many of a mapping": lambda: STEP.ignore_many({"task_id": "o-1"}, reason="x"),
    "ignore_many by a number": lambda: STEP.ignore_many(["o-1"], reason="x", by=5),
    "query window turned round": lambda: STATE.query(since=NOW, until=NOW - timedelta(days=1)),
    "page window turned round": lambda: STATE.page(since=NOW, until=NOW - timedelta(days=1)),
    "count window turned round": lambda: STATE.count(since=NOW, until=NOW - timedelta(days=1)),
    "create a finished task for later": lambda: CASE.create("o-1", state=Order.deliver.succeeded, due_time=NOW),
    "create on the table class": lambda: AppTask.create("o-1"),
    "get_task on the table class": lambda: AppTask.get_task("o-1"),
    "counts on the table class": AppTask.counts,
    "delete_use_case on the table class": AppTask.delete_use_case,
    "create on Task itself": lambda: Task.create("o-1"),
    "get_task on Task itself": lambda: Task.get_task("o-1"),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_wrong_argument_is_refused_before_any_request(wrong: Callable[[], object]) -> None:
    refuses(wrong)


def test_options_are_given_by_name() -> None:
    with pytest.raises(TypeError):
        STEP.start("o-1", timedelta(minutes=1))
    with pytest.raises(TypeError):
        STATE.query(NOW)
    with pytest.raises(TypeError):
        CASE.create("o-1", NOW)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"only": STEP.failed}, TypeError),
        ({"only": "failed"}, TypeError),
        ({"only": (STEP.succeeded,)}, ValueError),
        ({"only": (STEP.ignored,)}, ValueError),
        ({"only": (Order.ship.failed,)}, ValueError),
        ({"only": (Parcel.sort.pending,)}, ValueError),
        ({"only": (None,)}, ValueError),
        ({"error_contains": 429}, TypeError),
        ({"error_contains": b"429"}, TypeError),
        ({"rate": 0}, ValueError),
        ({"rate": -1}, ValueError),
        ({"rate": float("nan")}, ValueError),
        ({"rate": "50/s"}, TypeError),
        ({"rate": True}, TypeError),
        ({"heartbeat": 1}, TypeError),
        ({"progress": 5}, TypeError),
    ],
    ids=str,
)
def test_a_wrong_option_of_a_batch_is_refused(wrong: dict[str, Any], error: type[Exception]) -> None:
    with unreached(), pytest.raises(error, match=next(iter(wrong))):
        STEP.run_all(nothing, **wrong)


TAKES_AN_ID: list[Callable[[Any], object]] = [
    Order.create,
    Order.create_or_merge,
    lambda task_id: Order.create_many([{"task_id": task_id}]),
    Order.get_task,
    Order.delete_task,
    STEP.start,
    lambda task_id: STEP.run(task_id, nothing),
    STEP.reopen,
    lambda task_id: STEP.ignore(task_id, reason="x"),
    lambda task_id: STEP.reopen_many([task_id]),
    lambda task_id: STEP.ignore_many([task_id], reason="x"),
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


@columns("task_id")(NO_TEXT)
def test_what_is_no_text_is_no_task_id(task_id: object) -> None:
    for method in TAKES_AN_ID:
        refuses(partial(method, task_id), "a task id must be text, not ")


@columns("task_id", "message")(BAD_TEXT)
def test_text_that_is_no_task_id_is_refused(task_id: str, message: str) -> None:
    for method in [*TAKES_AN_ID, lambda task_id: Order.create_many([task_id])]:
        refuses(partial(method, task_id), message)


@columns("task_id", "message")(HINTS)
def test_only_a_value_that_could_be_an_id_gets_a_hint_how_to_write_it(task_id: Any, message: str) -> None:
    refuses(lambda: Order.create(task_id), f"a task id must be text, not {message}")


@columns("task_id", "message")([BAD_TEXT[0]])
def test_get_refuses_what_is_no_task_id_too(task_id: str, message: str) -> None:
    refuses(lambda: Order.get(task_id), message)


NO_ROWS: list[Any] = [
    ("o-1", "takes an iterable of ids or mappings, not one"),
    ({"task_id": "o-1"}, "takes an iterable of ids or mappings, not one"),
    ([{}], "create_many takes mappings with a task_id, not {}"),
    ([{"amount": 5}], "create_many takes mappings with a task_id, not {'amount': 5}"),
    ([{"task_id": "o-1", "amont": 5}], "Order.amont is not declared; did you mean 'amount'"),
    ([{"task_id": "o-1", "status": 12}], "Order.status is the tracker's own"),
    ([{"task_id": "o-1", "cls": 5}], "cls"),
    *((value, "create_many takes an iterable of ids or mappings") for value in (None, 5, b"o-1")),
    *((value, "create_many takes ids or mappings") for value in ([None], [5], [b"o-1"], [("o-1", {"amount": 5})])),
    ([{"task_id": "o-1", 5: 5}], "create_many takes .*, not one with the key 5"),
]


@columns("tasks", "message")(NO_ROWS)
def test_what_create_many_cannot_take_is_refused(tasks: Any, message: str) -> None:
    refuses(lambda: Order.create_many(tasks), message)


NO_STATES: list[Any] = [
    *("pending", Status.PENDING, 10, NotImplemented, Level.HIGH, b"", object(), State, STEP, (STATE,)),
    *(STEP.in_progress, Parcel.sort.pending, State(Order, "pack", Status.PENDING, 15)),
]


ALSO_FROM: list[Any] = [
    ((Order.ship.pending, None), "also_from has None, which is not a state of Order"),
    ((Order.ship,), "also_from has <Step Order.ship .20.>, which is not a state of Order"),
    (STATE, r"also_from must be a sequence of states, not one: write also_from=\("),
    ("pending", "also_from must be a sequence of states, not "),
    *(
        (value, r"also_from must be a sequence of states.*write also_from=\(ship.failed,\)")
        for value in (Order.ship, None, 20, "")
    ),
]


@columns("state")(NO_STATES)
def test_what_is_no_state_to_begin_in_is_refused(state: Any) -> None:
    refuses(lambda: Order.create("o-1", state=state), "is not a state of Order|cannot be created as")
    refuses(lambda: Order.create_many([{"task_id": "o-1", "state": state}]), "state|in_progress")


@pytest.mark.parametrize("state", ["ship pending", "ship.pending"])
def test_a_state_that_is_given_as_text_is_refused_with_what_to_write(state: Any) -> None:
    refuses(
        lambda: Order.create("o-1", state=state), f"'{state}' is not a state of Order: write state=Order.ship.pending"
    )


def test_a_time_in_data_is_refused_with_what_to_write() -> None:
    times = {"paid": [datetime.now(UTC)]}
    refuses(lambda: Order.create("o-1", data=times), r"as JSON: data\['paid'\]\[0\] is a datetime: .*isoformat\(\)")


def test_a_decorator_with_parentheses_is_refused_with_what_to_write() -> None:
    refuses(cast("Any", Order.ship).does, "write @Order.ship.does above the function, without parentheses")


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: cast("Any", Order).create(), r"Task\.create"),
        (lambda: cast("Any", Order).query(), r"Task\.query"),
        (lambda: cast("Any", Order.ship).ignore("o-1"), r"BoundStep\.ignore"),
        (lambda: cast("Any", Order.ship.pending).count(3), r"State\.count"),
    ],
    ids=["create", "query", "ignore", "count"],
)
def test_pythons_own_errors_name_no_class_that_users_do_not_know(call: Callable[[], object], name: str) -> None:
    with pytest.raises(TypeError, match=rf"^{name}\(\) "):
        call()


@columns("state")(NO_STATES)
def test_what_is_no_state_to_start_from_is_refused(state: Any) -> None:
    refuses(lambda: STEP.start("o-1", also_from=[state]), "also_from has ")
    refuses(lambda: STEP.run("o-1", nothing, also_from=(state,)), "also_from has ")


@columns("also_from", "message")(ALSO_FROM)
def test_what_is_no_sequence_of_states_is_refused(also_from: Any, message: str) -> None:
    refuses(lambda: STEP.start("o-1", also_from=also_from), message)
    refuses(lambda: STEP.run("o-1", nothing, also_from=also_from), message)


DUE = "2026-01-01T00:00:00.000000+0000"


def encoded(text: bytes) -> str:
    return base64.urlsafe_b64encode(text).decode()


def forged(positions: object) -> str:
    """Return a cursor of the pending parcels that says to go on from there."""
    return encoded(json.dumps([["parcel", 10, False, None, None], positions]).encode())


LOCAL_TABLE: Any = local_table
STOPPED_CLOCK: Any = stopped_clock

NO_CURSORS: list[Any] = [
    *("", "no cursor", "\ud800", "\0", 5, True, ["cursor"], {}, object()),
    *(encoded(text) for text in (b"NaN", b"1" * 5000, b"[[],{}]", b"{}", b"null", b"\xff\xfe")),
    *map(forged, (None, [], {"parcel#10#0": "x"}, {"parcel#10#0": [DUE]})),
    forged({"parcel#10#0": [DUE, "t-1", "more"]}),
    encoded(b"[" * 99_999 + b"]" * 99_999),
    forged({"parcel#10#0": [DUE, ""]}),
    forged({"parcel#10#0": ["", "t-1"]}),
    forged({"parcel#10#0": [DUE, "x" * 1025]}),
    forged({"parcel#10#0": [DUE, "\ud800"]}),
    forged({"parcel#10#0": [1, 2]}),
    forged({"parcel#10#0": [[], {}]}),
    forged({"parcel#10#0": "xy"}),
]


@columns("cursor")(NO_CURSORS)
def test_what_is_no_cursor_is_refused(cursor: Any) -> None:
    refuses(lambda: Parcel.sort.pending.page(cursor=cursor), "cursor")
    refuses(lambda: Parcel.sort.pending.index_page(cursor=cursor), "cursor")


TAKES_A_LIMIT: list[Callable[[Any], Any]] = [
    lambda limit: list(STATE.query(limit=limit)),
    lambda limit: STATE.page(limit=limit).tasks,
    lambda limit: STATE.index_page(limit=limit).tasks,
    lambda limit: list(STEP.due(limit=limit)),
    lambda limit: list(STEP.due_ids(limit=limit)),
    lambda limit: STEP.run_all(nothing, limit=limit).succeeded,
]


TAKES_THREADS: list[Callable[[Any], Any]] = [
    lambda threads: STEP.run_all(nothing, threads=threads),
    lambda threads: Order.create_many(["o-2"], threads=threads),
    lambda threads: Order.delete_use_case(threads=threads),
    lambda threads: STEP.reopen_many(["o-1"], threads=threads),
    lambda threads: STEP.ignore_many(["o-1"], reason="x", threads=threads),
]


NO_COUNTS = [0, -1, -(10**30), True, False, 1.0, NAN, "10", b"1", [1], Level.HIGH, Decimal(1)]


TAKES_A_FLAG: list[Any] = [
    ("heartbeat", lambda flag: STEP.start("o-1", heartbeat=flag)),
    ("heartbeat", lambda flag: STEP.run("o-1", nothing, heartbeat=flag)),
    ("heartbeat", lambda flag: STEP.run_all(nothing, heartbeat=flag)),
    ("with_data", lambda flag: STATE.query(with_data=flag)),
    ("with_data", lambda flag: STATE.page(with_data=flag)),
    ("with_data", lambda flag: STEP.due(with_data=flag)),
    ("with_data", lambda flag: Order.get_task("o-1", with_data=flag)),
    ("detailed_error", lambda flag: STEP.start("o-1", detailed_error=flag)),
    ("detailed_error", lambda flag: STEP.run("o-1", nothing, detailed_error=flag)),
    ("skip_error", lambda flag: STEP.start("o-1", skip_error=flag)),
    ("latest_due_first", lambda flag: STATE.query(latest_due_first=flag)),
    ("latest_due_first", lambda flag: STATE.page(latest_due_first=flag)),
    ("latest_due_first", lambda flag: STATE.index_page(latest_due_first=flag)),
]


@columns("limit")([*NO_COUNTS, sys.maxsize + 1, 10**30, 10**5000])
def test_what_is_no_limit_is_refused(limit: object) -> None:
    for method in TAKES_A_LIMIT:
        refuses(partial(method, limit), "limit must be (a whole number|from 1 to [0-9]+), not ")
    refuses(lambda: STATE.count(up_to=limit), "up_to must be (a whole number|from 1 to [0-9]+), not ")


@columns("threads")([*NO_COUNTS, None])
def test_what_is_no_number_of_threads_is_refused(threads: object) -> None:
    for method in TAKES_THREADS:
        refuses(partial(method, threads), "threads must be a whole number from 1, not ")


@columns("name", "method")(TAKES_A_FLAG)
def test_a_flag_is_true_or_false(name: str, method: Callable[[Any], object]) -> None:
    flags: list[object] = ["no", "", 0, 1, None, NAN, []]
    for flag in flags:
        refuses(partial(method, flag), f"{name} must be True or False, not ")


async def asynchronous(_ctx: object) -> NoReturn:
    pytest.fail("it runs")


def generating(_ctx: object) -> Iterator[None]:
    yield pytest.fail("it runs")


async def streaming(_ctx: object) -> AsyncIterator[None]:
    yield pytest.fail("it runs")


class AsynchronousObject:
    async def __call__(self, _ctx: object) -> NoReturn:
        pytest.fail("it runs")

    async def method(self, _ctx: object) -> NoReturn:
        pytest.fail("it runs")


NO_FUNCTIONS: list[Any] = [
    *((value, "takes a function of the context, not ") for value in ("print", 5, {}, STEP, object())),
    (None, "no function is bound to "),
    *(
        (value, "has finished when it returns, not the async")
        for value in (asynchronous, streaming, partial(asynchronous))
    ),
    *((value, "not the async") for value in (AsynchronousObject(), AsynchronousObject().method)),
    *((value, "has finished when it returns, not the generator") for value in (generating, partial(generating))),
]


@columns("function", "message")(NO_FUNCTIONS)
def test_what_is_no_function_of_the_context_is_refused(function: Any, message: str) -> None:
    refuses(lambda: STEP.run_all(function), message)
    refuses(lambda: STEP.run("o-1", function), message)


@columns("reason")([None, 5, True, b"why", ["why"], ValueError("why"), Plain.A])
def test_a_reason_that_is_no_text_is_refused(reason: Any) -> None:
    refuses(lambda: STEP.ignore("o-1", reason=reason), "the reason must be text, not ")
    refuses(lambda: STEP.ignore_many(["o-1"], reason=reason), "the reason must be text, not ")


TAKES_A_DURATION: list[tuple[str, Callable[[Any], object]]] = [
    ("lock_for", lambda duration: STEP.start("o-1", lock_for=duration)),
    ("lock_for", lambda duration: STEP.run("o-1", nothing, lock_for=duration)),
    ("RetryLater", RetryLater),
]


BAD_DURATIONS = [
    (timedelta(microseconds=-1), "(above zero|zero or more).*, not datetime.timedelta"),
    (timedelta.min, "(above zero|zero or more).*, not datetime.timedelta"),
    *(
        (value, f"a timedelta, not {value}: write (RetryLater.)?timedelta")
        for value in (300, 0.0, NAN, INF, True, "'5m'")
    ),
    (datetime(2026, 1, 1, tzinfo=UTC), "a timedelta, not datetime.datetime"),
    ((1,), r"a timedelta, not \(1,\): write"),
]


@columns("duration", "message")(BAD_DURATIONS)
def test_what_is_no_duration_is_refused_with_what_to_write(duration: Any, message: str) -> None:
    given = "5m" if duration == "'5m'" else duration
    for name, method in TAKES_A_DURATION:
        refuses(partial(method, given), f"{name}.*{message}")


TAKES_A_TIME: list[tuple[str, Callable[[Any], object]]] = [
    ("due_time", lambda time: Order.create("o-1", due_time=time)),
    ("due_time", lambda time: Order.create_many([{"task_id": "o-1", "due_time": time}])),
    ("since", lambda time: STATE.query(since=time)),
    ("until", lambda time: STATE.query(until=time)),
    ("since", lambda time: STATE.page(since=time)),
    ("until", lambda time: STATE.page(until=time)),
    ("since", lambda time: STATE.count(since=time)),
    ("until", lambda time: STATE.count(until=time)),
    ("since", lambda time: STEP.due(since=time)),
    ("until", lambda time: STEP.due(until=time)),
    ("since", lambda time: STEP.run_all(nothing, since=time)),
    ("until", lambda time: STEP.run_all(nothing, until=time)),
]


BAD_TIMES = [
    (datetime(2026, 1, 1), "has no time zone: add tzinfo=UTC"),  # noqa: DTZ001 - that is what is wrong with it
    (YEAR_1.replace(tzinfo=None), "has no time zone: add tzinfo=UTC"),
    (YEAR_9999.replace(tzinfo=None), "has no time zone: add tzinfo=UTC"),
    (datetime(2026, 1, 1, tzinfo=NoOffset()), "has no time zone: add tzinfo=UTC"),
    (datetime.min.replace(tzinfo=EAST), "is outside the years 1 to 9999 in UTC"),
    (datetime.max.replace(tzinfo=WEST), "is outside the years 1 to 9999 in UTC"),
    (date(2026, 1, 1), "must be an aware datetime, not datetime.date"),
    (time(12, tzinfo=UTC), "must be an aware datetime, not datetime.time"),
    (timedelta(days=1), "must be an aware datetime, not datetime.timedelta"),
    ("2026-01-01T00:00:00Z", "must be an aware datetime, not '2026"),
    (1_767_225_600, "must be an aware datetime, not 1767225600"),
    (NAN, "must be an aware datetime, not nan"),
    (False, "must be an aware datetime, not False"),
]


@columns("time", "message")(BAD_TIMES)
def test_what_is_no_time_is_refused_by_the_name_of_the_argument(time: object, message: str) -> None:
    for name, method in TAKES_A_TIME:
        if name != "due_time" or not isinstance(time, timedelta):  # from now
            refuses(partial(method, time), f"{name}.*{message}")


def advance_by_a_number() -> None:
    with stopped_clock() as clock:
        clock.advance(60)  # type: ignore[arg-type]  # as somebody may write


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: STOPPED_CLOCK(YEAR_1.replace(tzinfo=None)).__enter__(), "add tzinfo=UTC"),
        (lambda: STOPPED_CLOCK(date(2026, 1, 1)).__enter__(), "aware datetime"),
        (lambda: STOPPED_CLOCK("2026").__enter__(), "aware datetime"),
        (advance_by_a_number, "write timedelta"),
        (lambda: LOCAL_TABLE().__enter__(), "argument: 'table'"),
        (lambda: LOCAL_TABLE("tasks").__enter__(), "class of tasks"),
    ],
    ids=["naive", "date", "text", "advance by seconds", "no table", "table by name"],
)
def test_what_is_given_to_the_helpers_of_tests_is_checked(call: Callable[[], object], message: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clocks, "_clock", clocks._clock)
        refuses(call, message)
