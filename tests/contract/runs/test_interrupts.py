"""An exception that is raised at any line of the library while a task runs: nothing is lost without a word."""

import gc
import logging
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import FrameType
from typing import Any

import botocore.session
import pynamodb.connection.base
import pytest

import pynamodb_tracker
from pynamodb_tracker.dynamodb.connection import SharedConnection
from pynamodb_tracker.testing import tables
from pynamodb_tracker.writes import lock as lock_module
from tests.chaos.interruptions import BLOCKS, Attempt, Interrupted, found, logged, perform, problems
from tests.chaos.outcomes import notes_of
from tests.support.engines import Engine, Moto
from tests.support.orders import orders

PACKAGE = os.path.dirname(pynamodb_tracker.__file__)  # noqa: PTH120 - compared with the names of code objects, which are text

TABLES = tables.__file__
"""Not struck: an error at the last line of a with statement, which only a tracer can raise there, keeps its lock."""

STRIDE = 201
"""One line of so many is tried; python -m tests.contract.runs.test_interrupts 1 tries all."""


class Tracer:
    """Raises an error when the library comes to the line with this number; lines are counted as they are run."""

    def __init__(self, number: int, error: type[BaseException]) -> None:
        self.left = number
        self._error = error
        self._before = sys.gettrace()
        """What measures coverage, if that is measured."""

    def __enter__(self) -> None:
        sys.settrace(self.trace)

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def trace(self, frame: FrameType, event: str, _argument: object) -> Callable[..., Any] | None:
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE) or code.co_filename == TABLES or code.co_name == "__del__":
            return None
        if event in {"line", "call"}:
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise self._error
        return self.trace


def struck(order: Any, scenario: str, number: int, error: type[BaseException]) -> tuple[bool, list[str]]:
    """Run a task with an error at that line; return whether there was such a line, and which promises were broken."""
    kind = "ctrl-c" if error is KeyboardInterrupt else "handler"
    attempt = Attempt(f"{scenario}-{error.__name__}-{number}", scenario, kind)
    order.create(attempt.task_id)
    tracer = Tracer(number, error)
    with logged([attempt]):
        try:
            with tracer:
                perform(order, attempt)
        except BaseException as left:  # noqa: BLE001 - whatever it is
            attempt.error, attempt.notes = type(left).__name__, list(notes_of(left))
            del left
        row = found(order, attempt.task_id)
        if row.state == str(order.confirm.in_progress):
            gc.collect()  # of the run that never ended
    attempt.strikes = int(tracer.left <= 0)
    return tracer.left <= 0, [f"{number}: {each}: {attempt}, {row}" for each in problems(attempt, row)]


@pytest.fixture(scope="module")
def order() -> Iterator[Any]:
    declared = orders("", "interrupted")
    declared.Meta.host = None
    with Moto.of([declared.__mro__[1]]) as engine:
        assert isinstance(engine, Engine)
        yield declared


def all_problems(
    order: Any, scenario: str, error: type[BaseException], stride: int, first: int = 1
) -> tuple[int, list[str]]:
    """Return the number of lines of a run, and which promises an error at one line of so many breaks."""
    number, broken = first, list[str]()
    while True:  # until the run ends before it comes to that line
        was_struck, more = struck(order, scenario, number, error)
        if not was_struck:
            return number, broken
        broken += more
        number += stride


@pytest.mark.parametrize(
    ("scenario", "error", "first"),
    [
        ("plain", KeyboardInterrupt, 1),
        ("plain", Interrupted, 68),
        ("plain", SystemExit, 135),
        ("transaction", Interrupted, 50),
    ],
)
def test_an_error_at_any_line_of_the_library_loses_nothing_without_a_word(
    order: Any, scenario: str, error: type[BaseException], first: int
) -> None:
    number, broken = all_problems(order, scenario, error, STRIDE, first)
    assert number > 2 * STRIDE
    assert broken == []


def test_an_error_at_any_line_leaves_no_lock_of_the_process_or_of_the_table_locked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = botocore.session.get_session()  # one for all connections: building its first client takes longest
    monkeypatch.setattr(pynamodb.connection.base, "get_session", lambda: session)
    number, was_struck = 0, True
    while was_struck:
        number += 1
        connection = SharedConnection(
            region="us-east-1", connect_timeout_seconds=1, max_retry_attempts=1, read_timeout_seconds=1
        )
        tracer = Tracer(number, Interrupted)
        with suppress(Interrupted), tracer:
            connection.prepare()
            lock_module.new_token(above="7" * 24)
        with ThreadPoolExecutor(1) as another_thread:
            for lock in (connection.building, lock_module._guard):
                assert another_thread.submit(lock.acquire, timeout=0).result(), f"{number}: {lock}"
                another_thread.submit(lock.release).result()
        was_struck = tracer.left <= 0
    assert number > 40


def after_return(number: int) -> Callable[[Any], None]:
    """Return a block after which the Tracer in use raises its error at the line of this number."""

    def block(_ctx: Any) -> None:
        tracer: Any = sys.gettrace()
        tracer.__self__.left = number

    return block


@pytest.mark.parametrize("scenario", ["run", "batch"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, Interrupted])
def test_an_error_after_a_function_has_returned_is_raised_after_its_success_is_recorded(
    order: Any, monkeypatch: pytest.MonkeyPatch, scenario: str, error: type[BaseException]
) -> None:
    for number in range(1, 13):
        monkeypatch.setitem(BLOCKS, scenario, after_return(number))
        assert struck(order, scenario, 10_000 + number, error) == (True, [])


def test_an_interrupt_before_the_answer_of_a_function_is_stored_releases_its_run(order: Any) -> None:
    order.create("answered")
    with pytest.raises(KeyboardInterrupt), Tracer(10_000, KeyboardInterrupt):
        order.confirm.run("answered", after_return(1), store_result=True)
    assert order.get_task("answered").state == order.confirm.pending


def main() -> int:
    declared = orders("", "interrupted")
    declared.Meta.host = None
    with Moto.of([declared.__mro__[1]]):
        for scenario in BLOCKS:
            for error in (KeyboardInterrupt, Interrupted, SystemExit):
                number, broken = all_problems(declared, scenario, error, int(sys.argv[1]))
                sys.stdout.write("\n".join([f"{scenario} {error.__name__}: {number} lines", *broken, ""]))
                sys.stdout.flush()
    return 0


if __name__ == "__main__":
    logging.lastResort = None
    sys.exit(main())
