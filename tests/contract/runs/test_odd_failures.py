"""Failures: any exception of a block propagates unchanged, and is recorded."""

import re
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import GiveUp, RetryLater
from tests.contract.odd_errors import (
    AskingError,
    BriefRetryError,
    ClasslessError,
    ClosedError,
    EqualError,
    HidingGroup,
    LyingError,
    NamelessError,
    NotesError,
    ReprError,
    StrError,
    TruthError,
    circle,
    forever,
    grouped,
    later,
    linked,
    named,
    said,
)
from tests.contract.odd_values import LONGEST, NAN, STEP, Text, columns
from tests.support.rows import item_bytes, stored
from tests.support.shop import Order

pytestmark = pytest.mark.usefixtures("table")

FAILURES: dict[str, Any] = {
    "no message": (ValueError, "ValueError", ""),
    "of 450 KB": (lambda: ValueError("a" + "x" * 450_000 + "z"), "ValueError", r"ax+ \.\.\. x+z"),
    "of 900 KB": (lambda: ValueError("ä€😀" * 100_000), "ValueError", r"ä€😀.* \.\.\. .*ä€😀"),
    "of many lines": (lambda: ValueError("a\nb\r\n\tc" * 1000), "ValueError", r"a\nb.* \.\.\. .*\tc"),
    "of a file": (lambda: OSError(2, "No such file", "\udcff"), "FileNotFoundError", r".*No such file: '\\udcff'"),
    "of a key": (lambda: KeyError("k" * 10_000), "KeyError", r"'k+ \.\.\. k+'"),
    "of bytes": (
        lambda: UnicodeDecodeError("utf-8", b"\xff" * 100_000, 0, 1, "no"),
        "UnicodeDecodeError",
        "'utf-8'.*no",
    ),
    "500 errors": (lambda: ExceptionGroup("many", [ValueError("y" * 1000)] * 500), "ExceptionGroup", r"many \(500.*"),
    "NUL": (lambda: ValueError("a\0b"), "ValueError", "a\0b"),
    "a lone surrogate": (lambda: ValueError("a\ud800"), "ValueError", r"a\\ud800"),
    "bytes": (lambda: ValueError(b"\xff"), "ValueError", r"b'\\xff'"),
    "several arguments": (lambda: ValueError({"a": 1}, 2), "ValueError", r"\(\{'a': 1\}, 2\)"),
    "str() raises": (lambda: StrError(lambda: 1 / 0), "StrError", "<its str.. raised ZeroDivisionError>"),
    "str() without end": (lambda: StrError(forever), "StrError", "<its str.. raised RecursionError>"),
    "str() is None": (lambda: StrError(lambda: None), "StrError", "<its str.. raised TypeError>"),
    "str() of its own": (lambda: StrError(lambda: Text("said")), "StrError", "said"),
    "str() exits": (lambda: StrError(sys.exit), "StrError", "<its str.. raised SystemExit>"),
    "repr() raises": (lambda: ReprError("said"), "ReprError", "said"),
    "bool() raises": (lambda: TruthError("said"), "TruthError", "said"),
    "== raises": (lambda: EqualError("said"), "EqualError", "said"),
    "any name raises": (lambda: AskingError("said"), "AskingError", "said"),
    "its class says Ctrl-C": (lambda: LyingError("said"), "LyingError", "said"),
    "its class raises": (lambda: ClasslessError("said"), "ClasslessError", "said"),
    "every attribute raises": (lambda: ClosedError("said"), "ClosedError", "said"),
    "a note": (lambda: said(__notes__=["more"]), "ValueError", "said\nmore"),
    "notes of no text": (lambda: said(__notes__=[5, None]), "ValueError", "said\n5\nNone"),
    "a note whose str() raises": (
        lambda: said(__notes__=[StrError(lambda: 1 / 0), "more"]),
        "ValueError",
        "said\n<its note raised ZeroDivisionError>\nmore",
    ),
    "999 notes": (lambda: said(__notes__=["x" * 99] * 999), "ValueError", "said\nx.*x"),
    "notes of None": (lambda: said(__notes__=None), "ValueError", "said"),
    "notes of a number": (lambda: said(__notes__=5), "ValueError", "said"),
    "notes of one text": (lambda: said(__notes__="more"), "ValueError", "said"),
    "notes that raise": (lambda: NotesError("said"), "NotesError", "said"),
    "1000 causes": (lambda: linked(1000, "__cause__"), "ValueError", "number 999"),
    "5000 contexts": (lambda: linked(5000, "__context__"), "ValueError", "number 4999"),
    "causes in a circle": (lambda: circle("__cause__"), "ValueError", "first"),
    "contexts in a circle": (lambda: circle("__context__"), "ValueError", "first"),
    "1000 groups": (lambda: grouped(1000), "ExceptionGroup", r"group \(1 sub-exception\): ValueError: innermost"),
    "a group": (
        lambda: BaseExceptionGroup("group", [said(), SystemExit()]),
        "BaseExceptionGroup",
        "group .*: ValueError: said; SystemExit",
    ),
    "a group of 5 in groups": (
        lambda: ExceptionGroup("group", [ExceptionGroup("inner", [said()] * 2), KeyError("k"), said(), said()]),
        "ExceptionGroup",
        r"group \(4 sub-exceptions\): KeyError: 'k'; ValueError: said; ValueError: said",
    ),
    "a group that hides its members": (
        lambda: HidingGroup("group", [said()]),
        "HidingGroup",
        "group .*: ValueError: said",
    ),
    "no name": (lambda: named(""), "", "said"),
    "a name with a space": (lambda: named("a b"), "a b", "said"),
    "a name of emoji": (lambda: named("😀"), "😀", "said"),
    "a name of 5000": (lambda: named("x" * 5000), r"x+ \.\.\. x+", "said"),
    "a name of two lines": (lambda: named("a\nb"), "a b", "said"),
    "a name that is a number": (lambda: NamelessError("said"), "5", "said"),
    "StopIteration": (lambda: StopIteration(5), "StopIteration", "5"),
    "GeneratorExit": (GeneratorExit, "GeneratorExit", ""),
    "SystemExit": (lambda: SystemExit("bye"), "SystemExit", "bye"),
    "RetryLater": (lambda: RetryLater(timedelta(1)), "RetryLater", "retry in 1 day, 0:00:00"),
    "RetryLater with a number": (lambda: RetryLater(timedelta(1), 5), "RetryLater", "5"),  # type: ignore[arg-type]
    "RetryLater turned back": (lambda: later(-LONGEST), "RetryLater", "said.*"),
    "RetryLater in seconds": (lambda: later(5), "RetryLater", "said.*"),
    "RetryLater of NaN": (lambda: later(NAN), "RetryLater", "said.*"),
    "RetryLater without delay": (BriefRetryError, "BriefRetryError", ".*"),
}


def check_failed(make: Callable[[], BaseException], state: object, kind: str, message: str) -> None:
    error = make()
    Order.create("o-1")
    with pytest.raises(type(error)) as caught, STEP.start("o-1"):
        raise error
    assert caught.value is error
    task = Order.get_task("o-1")
    assert (task.state, task.attempt, task.errors[-1].attempt) == (state, 1, 1)
    assert re.fullmatch(f"(?s){kind}", task.errors[-1].type)
    assert re.fullmatch(f"(?s){message}", task.errors[-1].message)
    assert task.last_error is not None
    assert len(task.last_error.splitlines()) == 1
    assert 0 < len(task.last_error.encode()) <= 200
    assert item_bytes(stored(Order, "o-1")) < 4096  # 4 write units
    assert len(task.errors[0].traceback.encode()) <= 6000


@pytest.mark.parametrize(("make", "kind", "message"), FAILURES.values(), ids=FAILURES)
def test_a_failure_propagates_unchanged_and_is_recorded(
    make: Callable[[], BaseException], kind: str, message: str
) -> None:
    check_failed(make, STEP.failed, kind, message)


@pytest.mark.parametrize(
    ("make", "message"),
    [(GiveUp, ""), (lambda: GiveUp(None), "None"), (lambda: GiveUp(1, 2), r"\(1, 2\)"), (lambda: GiveUp("\0"), "\0")],
    ids=["nothing", "None", "two arguments", "NUL"],
)
def test_give_up_ignores_the_task_with_any_message(make: Callable[[], BaseException], message: str) -> None:
    check_failed(make, STEP.ignored, "GiveUp", message)


@columns("act")(
    [
        lambda ctx: setattr(ctx.task, "status", 1000),
        lambda ctx: setattr(ctx.task, "amont", 5),
        lambda ctx: delattr(ctx.task, "amount"),
        lambda ctx: setattr(ctx, "attempt", 0),
        lambda ctx: setattr(ctx, "task", None),
        lambda ctx: ctx.extend_lock(5),
        lambda ctx: ctx.task.update([Order.status.set(1000)]),
        lambda ctx: ctx.task.save(),
        lambda ctx: ctx.task.data.append(5),
    ]
)
def test_whatever_a_block_does_wrongly_fails_the_attempt(act: Callable[[Any], object]) -> None:
    Order.create("o-1")
    with pytest.raises((AttributeError, TypeError)) as caught, STEP.start("o-1") as ctx:
        act(ctx)
    task = Order.get_task("o-1")
    assert (task.state, task.errors[-1].type) == (STEP.failed, type(caught.value).__name__)
