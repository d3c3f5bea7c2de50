"""The last ten failures of a task are on record, whole; the row keeps about 500 bytes of them."""

import re
from collections.abc import Callable
from datetime import timedelta

import pytest

from pynamodb_tracker import GiveUp, RetryLater, Step, UseCase
from pynamodb_tracker.testing import StoppedClock
from tests.support.recorder import recorded
from tests.support.rows import all_rows, item_bytes, off_row_items, stored
from tests.support.shop import AppTask
from tests.support.workers import die, entered

pytestmark = pytest.mark.usefixtures("table", "task", "clock")


class Payout(AppTask):
    """Many attempts, and messages that may hold a card number."""

    use_case_id = UseCase("payout", keep_ignored_for=timedelta(days=30))

    pay = Step(10, max_attempts=20)

    def redact(self, text: str) -> str:
        return re.sub(r"\b\d{16}\b", "****", text)


CREATED = Payout, "p-1"


class Careless(AppTask):
    use_case_id = UseCase("careless")

    pay = Step(10, max_attempts=20)

    def redact(self, text: str) -> str:
        raise KeyError(text)


class Careful(AppTask):
    """Nothing of it expires."""

    use_case_id = UseCase("careful")

    pay = Step(10, max_attempts=20)


class Broken(Exception):  # noqa: N818 - a user's own
    pass


def fail(message: str, step: str = "pay", of: type[AppTask] = Payout) -> None:
    with getattr(of, step).start("p-1", skip_error=True):
        raise Broken(message)


def test_twelve_failures_leave_the_last_ten_whole() -> None:
    for number in range(12):
        fail(f"number {number} " + "x" * 1500)
    errors = Payout.get_task("p-1").errors
    assert [error.message for error in errors] == [f"number {number} " + "x" * 1500 for number in range(2, 12)]
    assert [error.attempt for error in errors] == list(range(3, 13))
    assert all("raise Broken(message)" in error.traceback for error in errors)
    assert {(error.step, error.type, error.worker) for error in errors} == {
        ("pay", "Broken", Payout.get_task("p-1").worker)
    }


def test_only_the_last_ten_abandoned_attempts_are_on_record(clock: StoppedClock) -> None:
    for _ in range(12):
        die(Payout.pay, "p-1")
        clock.advance(timedelta(hours=1))
        with pytest.raises(KeyboardInterrupt), Payout.pay.start("p-1"):
            raise KeyboardInterrupt
    assert [error.attempt for error in Payout.get_task("p-1").errors] == list(range(3, 13))


def test_the_row_stays_small() -> None:
    for number in range(12):
        fail(f"number {number} " + "ä" * 200_000)
    assert item_bytes(stored(Payout, "p-1")) < 1024 + 100
    assert off_row_items(Payout, "p-1").keys() == {"payout#errors"}


def test_a_task_is_read_whole_and_a_run_reads_its_errors_when_they_are_asked_for() -> None:
    fail("a" * 1500)
    fail("b" * 1500)
    with recorded() as requests:
        task = Payout.get_task("p-1")
        (queried,) = Payout.pay.failed.query()
        assert requests.operations == ["GetItem", "BatchGetItem", "Query", "BatchGetItem", "BatchGetItem"]
        requests.clear()
        assert [len(error.message) for error in (*task.errors, *queried.errors)] == [1500] * 4
        assert requests.operations == []
    with recorded() as requests, Payout.pay.start("p-1") as ctx:
        assert requests.operations == ["UpdateItem"]
        assert [len(error.message) for error in ctx.task.errors] == [1500] * 2
        assert requests.operations == ["UpdateItem", "BatchGetItem"]


def test_the_reason_of_an_ignore_follows_the_failures() -> None:
    for number in range(3):
        fail(f"{number}" * 300)
    Payout.pay.ignore("p-1", reason="card 4111111111111111 is stolen")
    assert [error.message[:3] for error in Payout.get_task("p-1").errors] == ["000", "111", "222", "car"]
    assert Payout.get_task("p-1").errors[-1].message == "card **** is stolen"


def test_secrets_are_scrubbed_from_message_traceback_and_index() -> None:
    fail("card 4111111111111111 " * 100 + "x" * 450_000)
    with Payout.pay.start("p-1", skip_error=True):
        raise GiveUp("4111111111111111") from Broken("4111111111111111")
    task = Payout.get_task("p-1")
    assert task.last_error is not None
    assert "4111111111111111" not in repr(task.errors) + task.last_error
    assert task.errors[-1].message == "****"
    assert "Broken: ****" in task.errors[-1].traceback


def test_if_the_hook_fails_nothing_of_the_text_is_kept() -> None:
    Careless.create("p-1")
    fail("4111111111111111", of=Careless)
    (error,) = Careless.get_task("p-1").errors
    assert error.message == error.traceback == "<withheld: redact raised KeyError>"
    assert Careless.get_task("p-1").state == Careless.pay.failed


def test_errors_end_with_the_task_and_stay_when_it_is_reopened() -> None:
    fail("a" * 1500)
    with Payout.pay.start("p-1", skip_error=True):
        raise GiveUp("b" * 1500)
    items = [*all_rows(AppTask)]
    (newest,) = (item for item in items if item["use_case_id"]["S"] == "payout#errors")
    assert newest["expire_time"] == stored(Payout, "p-1")["expire_time"]
    Payout.pay.reopen("p-1")
    items = [*all_rows(AppTask)]
    assert not [item for item in items if "expire_time" in item]
    assert [error.message[0] for error in Payout.get_task("p-1").errors] == ["a", "b"]


def test_deleting_a_task_deletes_its_errors() -> None:
    fail("a" * 1500)
    Payout.delete_task("p-1")
    assert off_row_items(Payout, "p-1") == {}


def test_a_worker_that_lost_its_lock_overwrites_no_errors(clock: StoppedClock) -> None:
    fail("a" * 1500)
    loser = entered(Payout.pay, "p-1")
    clock.advance(timedelta(minutes=6))
    fail("b" * 1500)
    error = Broken("of the loser " + "c" * 1500)
    loser.__exit__(Broken, error, None)
    assert "could not record" in error.__notes__[0]
    assert [error.message[0] for error in Payout.get_task("p-1").errors if error.type == "Broken"] == ["a", "b"]


def deep(message: str, left: int = 12) -> None:
    if left:
        deep(message, left - 1)
    raise Broken(message)


def deeper(message: str) -> None:
    deep(message, 9)


def fail_deep(message: str, function: Callable[[str], None] = deep) -> list[str]:
    """Fail with a traceback that is too long for the row; return the operations that this took."""
    with recorded() as requests, Payout.pay.start("p-1", skip_error=True):
        function(message)
    return requests.operations


def facts() -> list[tuple[int, str, int, str]]:
    """Return attempt, message and count of each failure, and which function its traceback has above `deep`."""
    errors = Payout.get_task("p-1").errors
    above = [re.findall(r"in (\w+)\n.*\n(?: *[~^]+\n)?(?=.* in deep\n)", each.traceback)[:1] for each in errors]
    whole = [each.traceback.endswith("raise Broken(message)\n") for each in errors]
    return [
        (each.attempt, each.message, each.count, name if is_whole else "")
        for each, [name], is_whole in zip(errors, above, whole, strict=True)
    ]


def test_a_failure_like_the_last_one_is_stored_in_the_row_alone_and_reads_whole() -> None:
    assert fail_deep("no 1") == ["UpdateItem", "UpdateItem", "PutItem"]
    assert [fail_deep(f"no {number}") for number in (2, 3)] == [["UpdateItem", "UpdateItem"]] * 2
    assert facts() == [(1, "no 1", 1, "fail_deep"), (2, "no 2", 1, "fail_deep"), (3, "no 3", 1, "fail_deep")]
    assert item_bytes(stored(Payout, "p-1")) < 1024


def test_a_failure_of_another_kind_is_logged_with_all_before_it() -> None:
    for message in ("no 1", "no 2"):
        fail_deep(message)
    assert fail_deep("other", deeper) == ["UpdateItem", "UpdateItem", "BatchGetItem", "PutItem"]
    assert fail_deep("again") == ["UpdateItem", "UpdateItem"]
    assert facts() == [
        (1, "no 1", 1, "fail_deep"),
        (2, "no 2", 1, "fail_deep"),
        (3, "other", 1, "deeper"),
        (4, "again", 1, "fail_deep"),
    ]


def test_failures_for_which_the_row_has_no_room_are_counted_if_they_say_the_same_and_logged_if_not(
    clock: StoppedClock,
) -> None:
    fail_deep("first")
    assert [fail_deep("the same") for _ in range(9)] == [["UpdateItem", "UpdateItem"]] * 9
    counts = [count for _, message, count, above in facts() if (message, above) == ("the same", "fail_deep")]
    assert (sum(counts), facts()[0]) == (9, (1, "first", 1, "fail_deep"))
    assert item_bytes(stored(Payout, "p-1")) < 1024
    clock.advance(timedelta(seconds=1))
    Payout.pay.reopen("p-1")
    for number in range(9):
        fail_deep(f"number {number}")
    assert [message for _, message, _, _ in facts()][-9:] == [f"number {number}" for number in range(9)]


def test_a_small_failure_again_leaves_the_traceback_to_the_one_before_it() -> None:
    for number in range(2):
        fail(f"no {number}")
    first, second = Payout.get_task("p-1").errors
    assert first.traceback == second.traceback != ""
    assert ["traceback" in entry["M"] for entry in stored(Payout, "p-1")["errors"]["L"]] == [True, False]
    assert off_row_items(Payout, "p-1") == {}


def test_a_command_after_long_failures_is_stored_in_the_row_alone() -> None:
    Careful.create("p-1")
    with Careful.pay.start("p-1", skip_error=True):
        deep("no 1")
    with recorded() as requests:
        Careful.pay.ignore("p-1", reason="no carrier")
    assert requests.operations == ["GetItem", "UpdateItem"]
    first, second = Careful.get_task("p-1").errors
    assert (first.message, "raise Broken" in first.traceback, second.message) == ("no 1", True, "no carrier")


def test_a_failure_that_takes_the_place_of_one_like_it_keeps_the_traceback(clock: StoppedClock) -> None:
    for count in (1, 2, 3):
        with Payout.pay.start("p-1", skip_error=True):
            raise RetryLater(timedelta(0), "the bank is closed", use_attempt=False)
        [error] = Payout.get_task("p-1").errors
        assert (error.count, "test_failure_log.py" in error.traceback) == (count, True)
        clock.advance(timedelta(seconds=5))
