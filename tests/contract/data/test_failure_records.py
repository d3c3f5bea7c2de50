"""Whatever a block fails with, the failure is recorded, and the record stays small."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NoReturn

import pytest

from pynamodb_tracker import Step, UseCase
from pynamodb_tracker.exceptions import TaskError
from pynamodb_tracker.model.failure import Failure
from tests.support.engines import only_dynoxide
from tests.support.rows import change, index_entries, item_bytes, stored
from tests.support.shop import AppTask, Order
from tests.support.workers import Broken, fail

pytestmark = pytest.mark.usefixtures("table")

MOST_BYTES = 4096
"""Of a row with little data, whatever became of it: 4 write units."""


class Tireless(AppTask):
    use_case_id = UseCase("tireless")

    try_it = Step(10, max_attempts=25)


class Unsayable(Exception):  # noqa: N818 - users name theirs as they like
    def __str__(self) -> NoReturn:
        raise RuntimeError("even this fails")


class NotText(Exception):  # noqa: N818 - users name theirs as they like
    def __str__(self) -> Any:
        return 5  # noqa: PLE0307 - that is what is odd about it


class Unshowable(Exception):  # noqa: N818 - users name theirs as they like
    def __repr__(self) -> NoReturn:
        raise RuntimeError("even this fails")


class OddNotes(Exception):  # noqa: N818 - users name theirs as they like
    __notes__: Any = 5


def unread() -> Failure:
    return Failure("s", 1, datetime.now(UTC), "w", "Broken", "")


def chained(depth: int) -> Exception:
    error = Broken("the first of all")
    for number in range(depth):
        after = Broken(f"number {number}")
        after.__cause__ = error
        error = after
    return error


def in_a_circle() -> Exception:
    first, second = Broken("first"), Broken("second")
    first.__cause__, second.__cause__ = second, first
    return first


def nested_groups(depth: int) -> Exception:
    error: Exception = Broken("innermost")
    for _ in range(depth):
        error = ExceptionGroup("a group", [error])
    return error


def recursion() -> Exception:
    def forever(n: int) -> int:
        return forever(n + 1) + 1

    try:
        forever(0)
    except RecursionError as error:
        return error
    raise AssertionError


FAILURES: list[Callable[[], BaseException]] = [
    Broken,
    lambda: Broken("x" * 450_000),
    lambda: Broken("ä€😀" * 100_000),
    lambda: Broken("a\nb\r\n\tc" * 1000),
    lambda: Broken("with a \0 in it"),
    lambda: Broken("with a lone \ud800 surrogate"),
    lambda: Broken(b"\xff", None, {"a": object()}),
    lambda: Unsayable("x"),
    lambda: NotText("x"),
    lambda: Unshowable("x"),
    lambda: OddNotes("x"),
    lambda: type("N" * 5000, (Exception,), {})("x"),
    lambda: ExceptionGroup("many", [ValueError("y" * 1000)] * 500),
    lambda: BaseExceptionGroup("mixed", [SystemExit(3), ValueError("y")]),
    lambda: nested_groups(60),
    lambda: chained(500),
    in_a_circle,
    recursion,
    lambda: UnicodeDecodeError("utf-8", b"\xff" * 100_000, 0, 1, "no"),
    lambda: OSError(2, "No such file", "\udcff"),
    lambda: KeyError("k" * 10_000),
    MemoryError,
    AssertionError,
]


@pytest.mark.parametrize("make", FAILURES, ids=lambda make: str(FAILURES.index(make)))
def test_any_failure_is_recorded_in_limited_space(make: Callable[[], BaseException]) -> None:
    Order.create("o-1")
    fail(Order.confirm_payment, "o-1", make())
    task = Order.get_task("o-1")
    assert (task.state, task.errors[-1].attempt) == (Order.confirm_payment.failed, 1)
    assert item_bytes(stored(Order, "o-1")) < MOST_BYTES


@pytest.mark.parametrize("make", FAILURES, ids=lambda make: str(FAILURES.index(make)))
def test_any_failure_is_one_short_line_in_the_index(make: Callable[[], BaseException]) -> None:
    Order.create("o-1")
    fail(Order.confirm_payment, "o-1", make())
    (entry,) = index_entries(AppTask)
    line = entry["last_error"]["S"]
    assert 0 < len(line.encode()) <= 200
    assert "\n" not in line


def test_a_long_message_keeps_its_beginning_and_its_end() -> None:
    Order.create("o-1")
    fail(Order.confirm_payment, "o-1", Broken("begins" + "x" * 450_000 + "ends"))
    message = Order.get_task("o-1").errors[-1].message
    assert message.startswith("begins")
    assert message.endswith("ends")


def test_of_an_immense_text_only_the_beginning_and_the_end_are_looked_at() -> None:
    sizes: list[int] = []

    def redact(text: str) -> str:
        sizes.append(len(text))
        return text

    immense = Broken("begins" + "x" * 1_000_000 + "ends")
    immense.__cause__ = Broken("x" * 1_000_000)
    failure = unread().with_texts_of(immense, redact)
    assert [size < 100_010 for size in sizes] == [True, True]
    assert (failure.message[:6], failure.message[-4:]) == ("begins", "ends")


@pytest.mark.parametrize(
    "make", [lambda: chained(300), lambda: ExceptionGroup("of many", [Broken() for _ in range(300)])]
)
def test_more_causes_than_anybody_reads_are_not_formatted(make: Callable[[], BaseException]) -> None:
    error = make()
    with pytest.raises(type(error)):
        raise error
    failure = unread().with_texts_of(error)
    assert failure.traceback.startswith("More than 200 causes are left out.")
    assert "raise error" in failure.traceback


def test_a_long_traceback_keeps_its_end() -> None:
    Order.create("o-1")
    fail(Order.confirm_payment, "o-1", recursion())
    failure = Order.get_task("o-1").errors[-1]
    assert failure.type == "RecursionError"
    assert "return forever(n + 1) + 1" in failure.traceback[-200:]


def test_a_short_message_is_kept_as_it_is() -> None:
    Order.create("o-1")
    fail(Order.confirm_payment, "o-1", Broken("die Straße, 道, 😀\n\tnext line"))
    assert Order.get_task("o-1").errors[-1].message == "die Straße, 道, 😀\n\tnext line"


def test_a_lone_surrogate_is_escaped() -> None:
    Order.create("o-1")
    fail(Order.confirm_payment, "o-1", Broken("\ud800"))
    assert Order.get_task("o-1").errors[-1].message == "\\ud800"


def test_an_exception_whose_message_raises_is_recorded_by_its_type() -> None:
    Order.create("o-1")
    fail(Order.confirm_payment, "o-1", Unsayable())
    assert Order.get_task("o-1").errors[-1].type == "Unsayable"


def test_the_traceback_begins_in_the_block_and_not_in_the_library() -> None:
    Order.create("o-1")
    fail(Order.confirm_payment, "o-1")
    assert "step.py" not in Order.get_task("o-1").errors[-1].traceback


def test_the_traceback_includes_the_causes() -> None:
    Order.create("o-1")
    fail(Order.confirm_payment, "o-1", chained(1))
    assert "the first of all" in Order.get_task("o-1").errors[-1].traceback


@only_dynoxide
def test_errors_stay_bounded_however_often_a_task_fails_and_is_reopened() -> None:
    Tireless.create("t-1")
    for _ in range(3):
        for attempt in range(15):
            fail(Tireless.try_it, "t-1", Broken(f"failure {attempt} " + "x" * 1000))
        Tireless.try_it.reopen("t-1")
    task = Tireless.get_task("t-1")
    assert 2 <= len(task.errors) <= 20
    assert task.errors[-1].message.startswith("failure 14 ")
    assert item_bytes(stored(Tireless, "t-1")) < MOST_BYTES


def test_the_newest_failures_are_those_that_are_kept() -> None:
    Tireless.create("t-1")
    for attempt in range(15):
        fail(Tireless.try_it, "t-1", Broken(f"failure {attempt}"))
    kept = [failure.message for failure in Tireless.get_task("t-1").errors]
    assert kept == [f"failure {attempt}" for attempt in range(15 - len(kept), 15)]


def test_a_record_with_an_unknown_field_is_read_and_one_that_lacks_a_field_is_damaged() -> None:
    Order.create("o-1")
    fail(Order.confirm_payment, "o-1")
    (entry,) = stored(Order, "o-1")["errors"]["L"]
    entry["M"]["colour"] = {"S": "of a later version"}
    change(Order, "o-1", errors={"L": [entry]})
    assert [failure.type for failure in Order.get_task("o-1").errors] == ["Broken"]
    del entry["M"]["worker"]
    change(Order, "o-1", errors={"L": [entry]})
    with pytest.raises(TaskError, match=r"errors \('worker' is missing in a failure, or of another type\)"):
        Order.get_task("o-1")


def test_errors_that_another_program_wrote_too_large_are_cut() -> None:
    Order.create("o-1")
    fail(Order.confirm_payment, "o-1")
    ((entry),) = stored(Order, "o-1")["errors"]["L"]
    entry["M"]["message"] = {"S": "x" * 10_000}
    change(Order, "o-1", errors={"L": [entry] * 30})
    fail(Order.confirm_payment, "o-1")
    assert item_bytes(stored(Order, "o-1")) < MOST_BYTES


def test_a_traceback_has_the_function_that_raised_however_deep_it_was() -> None:
    def down(levels: int) -> None:
        if levels:
            down(levels - 1)
        else:
            innermost()

    def innermost() -> NoReturn:
        raise Broken("at the bottom")

    Order.create("o-1")
    with pytest.raises(Broken):
        Order.confirm_payment.run("o-1", lambda _: down(30))
    assert "in innermost" in Order.get_task("o-1").errors[-1].traceback
