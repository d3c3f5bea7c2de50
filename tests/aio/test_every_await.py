"""A cancel at any point where a run waits, with any request or answer lost: what the row says is what happened."""

import asyncio
import contextlib
import itertools
import logging
import sys
import threading
from collections.abc import Awaitable, Generator, Iterator
from typing import Any, NamedTuple
from unittest import mock

import pytest
from botocore.exceptions import ReadTimeoutError
from pynamodb.connection.base import Connection

from pynamodb_tracker.testing import stopped_clock
from tests.chaos.interruptions import ASYNC_BLOCKS, Attempt, aperform, create, ended, found, logged, problems
from tests.support.engines import Moto
from tests.support.orders import orders

STRIDE = 101
"""One case of so many is tried; python -m tests.aio.test_every_await 1 tries all."""


class Case(NamedTuple):
    """When a run is cancelled, and what the network does."""

    point: int
    """At which of the points where the run waits the first cancel arrives, from 1; 0 for no cancel."""
    at_end: bool
    """Whether the cancel arrives when what the run waits for is done, and the run has not noticed yet."""
    times: int
    """At how many points in a row it is cancelled."""
    lost: int
    """Which request of the run gets no answer, from 1; 0 for none."""
    applied: bool
    """Whether that request is carried out."""


class Points:
    """Awaits something, and has its task cancelled at the points of a case."""

    def __init__(self, awaited: Awaitable[None], case: Case, attempt: Attempt) -> None:
        self.passed = 0
        self._awaited = awaited
        self._case = case
        self._attempt = attempt

    def __await__(self) -> Generator[Any, Any, None]:
        inner, error = self._awaited.__await__(), None
        while True:
            try:
                future = inner.send(None) if error is None else inner.throw(error)
            except StopIteration:
                return
            self._strike(future)
            try:
                yield future
                error = None
            except BaseException as thrown:  # noqa: BLE001 - it is thrown into what waits
                error = thrown

    def _strike(self, future: asyncio.Future[Any] | None) -> None:
        self.passed += 1
        if not 0 < self._case.point <= self.passed < self._case.point + self._case.times:
            return
        if self._case.at_end and future is not None:
            future.add_done_callback(self._cancel)  # called before the task wakes up, whose callback is added later
        else:
            asyncio.get_running_loop().call_soon(self._cancel)

    def _cancel(self, _: object = None) -> None:
        task = self.task
        self._attempt.strikes += task.cancel()

    task: asyncio.Task[None]


class Wire:
    """Loses one request, or its answer, and knows how many are on their way."""

    def __init__(self, case: Case) -> None:
        self.sent = self.under_way = 0
        self._case = case
        self._guard = threading.Lock()
        self._original = Connection.dispatch

    def dispatch(self, connection: Connection, operation: str, request: Any) -> Any:
        with self._guard:
            self.sent += 1
            self.under_way += 1
            is_lost = self.sent == self._case.lost
        try:
            if is_lost and not self._case.applied:
                raise ReadTimeoutError(endpoint_url="of the test")
            answer = self._original(connection, operation, request)
            if is_lost:
                raise ReadTimeoutError(endpoint_url="of the test")
            return answer
        finally:
            with self._guard:
                self.under_way -= 1


class Complaints(logging.Handler):
    """Keeps what asyncio logs, for example of exceptions that nobody has retrieved."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage().partition("\n")[0])

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        """Keep what is logged meanwhile."""
        log = logging.getLogger("asyncio")
        log.addHandler(self)
        try:
            yield
        finally:
            log.removeHandler(self)


def through(wire: Wire) -> Any:
    """Return what is put in place of a connection's method, which has the connection as an argument."""

    def dispatch(connection: Connection, operation: str, request: Any) -> Any:
        return wire.dispatch(connection, operation, request)

    return dispatch


async def _cancelled(order: Any, attempt: Attempt, case: Case, wire: Wire) -> tuple[int, int]:
    """Run a task as the case says; return at how many points it has waited, and how many requests are on their way."""
    points = Points(aperform(order, attempt), case, attempt)

    async def run() -> None:
        await points

    points.task = asyncio.ensure_future(run())
    await ended(points.task, attempt)
    return points.passed, wire.under_way


def struck(order: Any, block: str, case: Case) -> tuple[int, int, list[str]]:
    """Try one case; return how often the run waited, how many requests it sent, and what was broken."""
    attempt = Attempt("-".join(map(str, (block, *case))), block, "cancel")
    create(order, attempt)
    wire = Wire(case)
    complaints = Complaints()
    with logged([attempt]), complaints.heard(), mock.patch.object(Connection, "dispatch", through(wire)):
        passed, under_way = asyncio.run(_cancelled(order, attempt, case, wire))
    row = found(order, attempt.task_id)
    broken = list(problems(attempt, row))
    broken += [f"asyncio logged: {line}" for line in complaints.lines]
    if under_way:
        broken.append(f"the run has ended, and {under_way} of its requests are on their way")
    if not case.lost and any("could not" in line for line in (*attempt.notes, *attempt.lines)):
        broken.append("nothing was lost, and something could not be recorded")
    return passed, wire.sent, [f"{each}: {attempt}, {row}" for each in broken]


def cases(order: Any, block: str) -> Iterator[Case]:
    points, requests, broken = struck(order, block, Case(0, at_end=False, times=0, lost=0, applied=False))
    assert not broken, broken
    lost = [(0, False), *itertools.product(range(1, requests + 3), (False, True))]
    for (number, applied), at_end, times in itertools.product(lost, (False, True), (1, 2, 3)):
        for point in range(1, points + 3):
            yield Case(point, at_end, times, number, applied)


@pytest.fixture(scope="module")
def order() -> Iterator[Any]:
    declared = orders("", "cancelled")
    declared.Meta.host = None
    with Moto.of([declared.__mro__[1]]), stopped_clock():
        yield declared


def test_a_cancel_at_any_point_leaves_in_the_row_what_happened(order: Any) -> None:
    every = itertools.chain.from_iterable(((block, case) for case in cases(order, block)) for block in ASYNC_BLOCKS)
    tried = [struck(order, block, case) for block, case in itertools.islice(every, 0, None, STRIDE)]
    assert len(tried) > 30
    assert [each for _, _, broken in tried for each in broken] == []


def main() -> int:
    """Try one case of so many, for every block."""
    declared = orders("", "cancelled")
    declared.Meta.host = None
    found_any = False
    with Moto.of([declared.__mro__[1]]), stopped_clock():
        for block in ASYNC_BLOCKS:
            tried = [
                struck(declared, block, case)
                for case in itertools.islice(cases(declared, block), 0, None, int(sys.argv[1]))
            ]
            broken = [each for _, _, found in tried for each in found]
            found_any = found_any or bool(broken)
            sys.stdout.write("\n".join([f"{block}: {len(tried)} cases", *broken, ""]))
            sys.stdout.flush()
    return int(found_any)


if __name__ == "__main__":
    logging.lastResort = None
    sys.exit(main())
