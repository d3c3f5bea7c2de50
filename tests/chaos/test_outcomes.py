"""Errors that the faults explain are told apart from those that no fault explains."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError, ParamValidationError, ReadTimeoutError
from pynamodb.exceptions import UpdateError

from pynamodb_tracker import LockLostError, TaskLockedError, ValueNotStorableError
from tests.chaos.outcomes import UNRECORDED, Boom, outcome


def answered(code: str) -> UpdateError:
    return UpdateError(code, ClientError({"Error": {"Code": code, "Message": ""}}, "UpdateItem"))


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
        (UpdateError("never sent", ParamValidationError(report="")), "crash"),
        (ValueNotStorableError("too large", task_id="p"), "crash"),
        (KeyError("step"), "crash"),
    ],
)
def test_only_what_a_fault_explains_is_no_crash(error: BaseException, expected: str) -> None:
    assert outcome(error) == expected
