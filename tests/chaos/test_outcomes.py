"""Errors that a fault explains are distinguished from those that no fault explains."""

from asyncio import CancelledError
from typing import TypeVar

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    HTTPClientError,
    ParamValidationError,
    ReadTimeoutError,
)
from pynamodb.exceptions import CancellationReason, TransactWriteError, UpdateError, VerboseClientError

from pynamodb_tracker import LockLostError, TaskLockedError, ValueNotStorableError
from tests.chaos.interrupts import OutOfTime, comes_from_nowhere
from tests.chaos.outcomes import (
    KEPT,
    UNRECORDED,
    UNSURE,
    Boom,
    claim_of_cancelled,
    end_after,
    end_of_cancelled,
    end_of_interrupted,
    of_write,
    outcome,
)

E = TypeVar("E", bound=BaseException)


def answered(code: str) -> UpdateError:
    return UpdateError(code, ClientError({"Error": {"Code": code, "Message": ""}}, "UpdateItem"))


def cancelled(*codes: str) -> TransactWriteError:
    reasons = [None if code == "None" else CancellationReason(code) for code in codes]
    answer = {"Error": {"Code": "TransactionCanceledException", "Message": ""}}
    error = VerboseClientError(answer, "TransactWriteItems", cancellation_reasons=reasons)
    return TransactWriteError("", error)


def noted(error: E, *notes: str) -> E:
    for note in notes:
        error.add_note(f"pynamodb_tracker: {note}")
    return error


def unheard() -> TransactWriteError:
    return TransactWriteError("no answer", ConnectionClosedError(endpoint_url=""))


def unrecorded() -> Boom:
    error = Boom()
    error.add_note(f"pynamodb_tracker {UNRECORDED} this")
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Boom(), "ok"),
        (KeyboardInterrupt(), "ok"),
        (unrecorded(), "unknown"),
        (TaskLockedError("held", task_id="p"), "refused"),
        (LockLostError("lost", task_id="p"), "lost"),
        (UpdateError("no answer", ReadTimeoutError(endpoint_url="")), "unknown"),
        (answered("ThrottlingException"), "unknown"),
        (answered("ValidationException"), "crash"),
        (answered("ConditionalCheckFailedException"), "crash"),
        (unheard(), "unknown"),
        (cancelled("TransactionConflict", "None"), "unknown"),
        (cancelled("TransactionConflict", "ConditionalCheckFailed"), "crash"),
        (UpdateError("never sent", ParamValidationError(report="")), "crash"),
        (ValueNotStorableError("too large", task_id="p"), "crash"),
        (KeyError("step"), "crash"),
    ],
)
def test_an_error_that_no_fault_explains_is_a_crash(error: BaseException, expected: str) -> None:
    assert outcome(error) == expected


@pytest.mark.parametrize(
    ("what", "error", "expected"),
    [
        ("commit", unheard(), "none"),
        ("commit", noted(unheard(), UNSURE), "unknown"),
        ("commit", LockLostError("lost", task_id="p"), "lost"),
        ("commit", noted(LockLostError("lost", task_id="p"), UNSURE), "unknown"),
        ("save", answered("ThrottlingException"), "unknown"),
    ],
)
def test_a_transaction_was_not_applied_unless_its_error_says_so(what: str, error: Exception, expected: str) -> None:
    assert of_write(what, error) == expected


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        ([], ("fail", "ok")),
        ([UNSURE], ("fail", "ok")),
        ([UNRECORDED], ("fail", "unknown")),
        ([UNSURE, UNRECORDED], ("succeed", "unknown")),
        ([UNSURE, KEPT], ("succeed", "ok")),
    ],
)
def test_the_notes_say_how_a_run_ended_whose_transaction_failed(notes: list[str], expected: tuple[str, str]) -> None:
    assert end_after(noted(unheard(), *notes)) == expected


def cancelled_by(cause: BaseException | None, *notes: str) -> BaseException:
    error = noted(CancelledError(), *notes)
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (cancelled_by(None), ("unknown", False)),
        (cancelled_by(TaskLockedError("held", task_id="p")), ("refused", False)),
        (cancelled_by(noted(unheard(), "it may still be locked")), ("unknown", True)),
    ],
)
def test_a_copy_of_a_claim_that_was_refused_may_come_late_although_it_was_cancelled(
    error: BaseException, expected: tuple[str, bool]
) -> None:
    assert claim_of_cancelled(error) == expected


def test_a_cancel_does_not_hide_that_the_transaction_of_a_success_had_failed() -> None:
    assert end_of_cancelled(cancelled_by(None), "succeed") == ("succeed", "ok")
    assert end_of_cancelled(cancelled_by(None), "succeed", unheard()) == ("fail", "ok")


def test_a_cancelled_run_may_have_succeeded_if_the_error_of_its_transaction_says_so() -> None:
    unsure = cancelled_by(noted(unheard(), UNSURE), UNRECORDED)
    assert end_of_cancelled(unsure, "release", booking=True) == ("succeed", "unknown")
    assert end_of_cancelled(unsure, "release") == ("release", "unknown")  # the transaction was about progress
    assert end_of_cancelled(cancelled_by(unheard(), UNRECORDED), "release", booking=True) == ("release", "unknown")


def test_a_run_cancelled_in_its_block_is_released_unless_a_note_says_otherwise() -> None:
    unsure = cancelled_by(noted(unheard(), UNSURE))
    assert end_of_cancelled(unsure, "release", booking=True) == ("release", "ok")
    assert end_of_cancelled(unsure, "succeed", booking=True) == ("succeed", "unknown")


def from_nowhere(*notes: str) -> OutOfTime:
    return noted(OutOfTime(), *notes)


@pytest.mark.parametrize(
    ("error", "logged", "expected"),
    [
        (from_nowhere(), False, ("succeed", "ok")),
        (from_nowhere(UNRECORDED), False, ("succeed", "unknown")),
        (from_nowhere(), True, ("succeed", "unknown")),
        (from_nowhere(KEPT), True, ("succeed", "ok")),
    ],
    ids=["no note", "a note", "a line in the log", "recorded before"],
)
def test_an_interrupted_end_is_on_record_unless_a_note_or_the_log_says_otherwise(
    error: OutOfTime, *, logged: bool, expected: tuple[str, str]
) -> None:
    assert end_of_interrupted(error, "succeed", logged=logged) == expected


def test_what_a_library_made_of_an_exception_from_nowhere_comes_from_nowhere() -> None:
    error = UpdateError("no answer", HTTPClientError(error=OutOfTime()))
    assert not comes_from_nowhere(error)
    error.__cause__ = OutOfTime()
    assert comes_from_nowhere(error)
