"""Whatever a block fails with, the failure is recorded, and the record stays small."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import NoReturn

import pytest

from pynamodb_tracker import Step, UseCase
from pynamodb_tracker.exceptions import TaskError
from pynamodb_tracker.model.failure import Failure
from tests.support.engines import only_dynoxide
from tests.support.rows import change, item_bytes, stored
from tests.support.shop import AppTask, Order
from tests.support.workers import Broken, fail

pytestmark = pytest.mark.usefixtures("table", "task")

MOST_BYTES = 4096
"""Of a row with little data, whatever became of it: 4 write units."""


class Tireless(AppTask):
    use_case_id = UseCase("tireless")

    try_it = Step(10, max_attempts=25)


def unread() -> Failure:
    return Failure("s", 1, datetime.now(UTC), "w", "Broken", "")


def chained(depth: int) -> Exception:
    error = Broken("the first of all")
    for number in range(depth):
        after = Broken(f"number {number}")
        after.__cause__ = error
        error = after
    return error


def recursion() -> Exception:
    def forever(n: int) -> int:
        return forever(n + 1) + 1

    try:
        forever(0)
    except RecursionError as error:
        return error
    raise AssertionError


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
    fail(Order.confirm_payment, "o-1", recursion())
    failure = Order.get_task("o-1").errors[-1]
    assert failure.type == "RecursionError"
    assert "return forever(n + 1) + 1" in failure.traceback[-200:]


def test_the_traceback_begins_in_the_block_and_includes_the_causes() -> None:
    fail(Order.confirm_payment, "o-1", chained(1))
    traceback = Order.get_task("o-1").errors[-1].traceback
    assert ("step.py" in traceback, "the first of all" in traceback) == (False, True)


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

    with pytest.raises(Broken):
        Order.confirm_payment.run("o-1", lambda _: down(30))
    assert "in innermost" in Order.get_task("o-1").errors[-1].traceback
