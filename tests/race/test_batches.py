"""Writes of several threads in one request on a bad network, and on engines that do less than DynamoDB."""

from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from typing import Any
from weakref import WeakKeyDictionary

import pytest
from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker.dynamodb import batch_execute, write_batcher
from pynamodb_tracker.dynamodb.connection import sharing_requests
from pynamodb_tracker.presentation.times import spread
from pynamodb_tracker.testing import StoppedClock
from tests.engine.engine import Engine
from tests.support.batch_faults import (
    BATCH,
    denied,
    for_some,
    ignores_conditions,
    loses,
    lost,
    of_batches,
    raises,
    repeated,
    responds_to_each,
    without_rows,
)
from tests.support.network import Answer, Network, Rule

TASKS = [f"o-{number}" for number in range(8)]
PATIENCE = 12
"""Batches in which everything must have been done."""


@pytest.fixture(autouse=True)
def unknown_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what the library knows about the engine."""
    monkeypatch.setattr(batch_execute, "_known", WeakKeyDictionary())


@pytest.fixture
def order(new_worker: Any, dynamodb: Engine, stopped_clock: StoppedClock) -> Any:
    """Return a use case with tasks, each of which may be tried as often as it takes."""
    del stopped_clock  # named because the tasks are created when it stands
    order = new_worker(dynamodb.endpoint, max_attempts=99)
    order.create_many(TASKS)
    return order


class Work:
    """What was done in blocks, by task."""

    def __init__(self, order: Any, clock: StoppedClock) -> None:
        self.order = order
        self.clock = clock
        self.fences: dict[str, list[int]] = defaultdict(list)
        self.errors = 0
        """Batches that ended with an error of the network."""
        self.batches = 0

    def do(self, *, threads: int = 4) -> None:
        """Run batches until there is nothing left, later and later, so that locks that were left behind expire."""
        while set(self.order.confirm.due_ids()) and self.batches < PATIENCE:
            self.batches += 1
            try:
                self.order.confirm.run_all(self.block, threads=threads)
            except PynamoDBException:
                self.errors += 1
            self.clock.advance(timedelta(minutes=6))

    def block(self, ctx: Any) -> None:
        self.fences[ctx.task.task_id].append(ctx.task.fence)
        ctx.task.note = f"by {ctx.task.fence}"

    def check(self, *, once: bool) -> None:
        """Check that each task has succeeded, under one owner at a time, and that its last one wrote the row."""
        for task in self.order.get_many(TASKS):
            fences = self.fences[task.task_id]
            assert (task.state, fences) == (self.order.confirm.succeeded, sorted(set(fences)))
            assert task.note == f"by {fences[-1]}"
            if once:
                assert (len(fences), {error.type for error in task.errors} <= {"abandoned"}) == (1, True)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let writes meet on a slow machine, too: they wait for all threads that run a task, and not only milliseconds."""
    monkeypatch.setattr(write_batcher, "_LONGEST_WAIT", 10.0)
    monkeypatch.setattr(write_batcher.WriteBatcher, "pausing", lambda _: sharing_requests(None))


@pytest.fixture
def work(order: Any, stopped_clock: StoppedClock) -> Work:
    return Work(order, stopped_clock)


class Counted:
    """A rule that counts the requests of several statements."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.statements: list[int] = []

    def __call__(self, operation: str, request: dict[str, Any], send: Callable[[], Answer]) -> Answer:
        if operation == BATCH:
            self.statements.append(len(request["Statements"]))
        return self.rule(operation, request, send)


TEMPORARY = ("ThrottlingError", "ProvisionedThroughputExceeded", "TransactionConflict", "RequestLimitExceeded")


@pytest.mark.parametrize(
    "rule",
    [
        *(pytest.param(of_batches(for_some(code), times=6), id=code) for code in TEMPORARY),
        pytest.param(of_batches(for_some("InternalServerError"), times=6), id="not applied"),
        pytest.param(of_batches(for_some("InternalServerError", applied=True), times=6), id="applied"),
        pytest.param(of_batches(for_some("AccessDenied")), id="denied for some"),
        pytest.param(of_batches(for_some("ValidationError")), id="invalid for some"),
        pytest.param(of_batches(responds_to_each("ValidationError")), id="invalid for each"),
        pytest.param(of_batches(repeated), id="sent twice"),
        pytest.param(of_batches(without_rows), id="no rows"),
        pytest.param(of_batches(without_rows, probes=True), id="no rows at all"),
        pytest.param(of_batches(denied, probes=True), id="denied"),
        pytest.param(of_batches(raises, probes=True), id="unknown"),
        pytest.param(of_batches(ignores_conditions, probes=True), id="conditions ignored"),
    ],
)
def test_whatever_becomes_of_a_request_that_is_answered_each_task_is_run_once(
    network: Network, work: Work, rule: Rule
) -> None:
    network.rule = counted = Counted(rule)
    work.do()
    assert work.errors == 0
    assert counted.statements
    work.check(once=True)


def test_an_engine_that_ignores_conditions_takes_no_task_away_from_its_worker(
    network: Network, order: Any, rival: Any, work: Work
) -> None:
    ignoring, held, others = of_batches(ignores_conditions, probes=True), ExitStack(), TASKS[::2]

    def rule(operation: str, request: dict[str, Any], send: Callable[[], Answer]) -> Answer:
        if operation != "Query":
            return ignoring(operation, request, send)
        network.rule, answer = ignoring, send()
        for task_id in others:  # after the look at what is due, and before any claim
            held.enter_context(rival.confirm.start(task_id))
        return answer

    network.rule = rule
    with held:
        order.confirm.run_all(work.block, threads=8)
        assert set(work.fences) == set(TASKS) - set(others)
    assert order.confirm.succeeded.count() == len(TASKS)


@pytest.mark.parametrize("fault", [lost, loses])
def test_after_a_request_without_an_answer_no_task_is_lost_or_has_two_owners(
    network: Network, work: Work, fault: Any
) -> None:
    network.rule = counted = Counted(of_batches(fault, times=4))
    work.do()
    assert max(counted.statements) > 1
    work.check(once=False)


def test_a_late_copy_of_a_whole_request_changes_nothing(network: Network, order: Any, work: Work) -> None:
    sent: list[Callable[[], Answer]] = []

    def noted(operation: str, _request: dict[str, Any], send: Callable[[], Answer]) -> Answer:
        if operation == BATCH:
            sent.append(send)
        return send()

    network.rule = noted
    work.do()
    before = [task.to_dynamodb_dict() for task in order.get_many(TASKS)]
    for send in sent:
        assert all("Error" in response for response in send()["Responses"])
    assert len(sent) > 2
    assert [task.to_dynamodb_dict() for task in order.get_many(TASKS)] == before


def test_reopened_tasks_of_groups_keep_their_order_and_their_rate(
    new_worker: Any, dynamodb: Engine, stopped_clock: StoppedClock
) -> None:
    order, names = new_worker(dynamodb.endpoint), [f"{number:02}" for number in range(20)]
    ids = [f"{number}-{name}" for number in range(3) for name in names]
    order.create_many(({"task_id": task_id, "group": task_id[2:]} for task_id in ids), threads=25)
    order.confirm.ignore_many(reversed(ids), reason="a test")
    begin = stopped_clock.now()
    report = order.confirm.reopen_many(reversed(ids), due_times=spread(begin, 300))
    groups = {name: order.group(name) for name in names}
    assert {(group.turn, *group.waiting()) for group in groups.values()} == {
        (f"0-{name}", f"1-{name}", f"2-{name}") for name in names
    }
    due = {task.task_id: task.turn_due_time or task.due_time for task in order.get_many(ids)}
    seconds = Counter(int((time - begin).total_seconds()) for time in due.values())
    assert (len(report.succeeded), report.due_now, {*seconds.values()}, len(seconds)) == (60, 0, {5}, 12)
    assert all(due[f"0-{name}"] < due[f"1-{name}"] < due[f"2-{name}"] for name in names)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(lambda: of_batches(for_some("InternalServerError", applied=True), times=2), id="applied"),
        pytest.param(lambda: of_batches(repeated), id="sent twice"),
        pytest.param(lambda: of_batches(ignores_conditions, probes=True), id="conditions ignored"),
    ],
)
def test_operations_on_many_tasks_report_what_became_of_each_whatever_becomes_of_their_requests(
    network: Network, order: Any, fault: Callable[[], Rule]
) -> None:
    held, new = TASKS[0], [f"new-{number}" for number in range(6)]
    with order.confirm.start(held):
        network.rule = fault()
        created = order.create_many([*new, held], threads=4)
        network.rule = fault()
        ignored = order.confirm.ignore_many([*new, held], reason="a test", threads=4)
        network.rule = fault()
        reopened = order.confirm.reopen_many([*new, held], threads=4)
        network.rule = fault()
        deleted = order.delete_use_case(threads=4)

        assert set(created.succeeded) == set(ignored.ignored) == set(reopened.succeeded) == set(new)
        assert set(deleted.succeeded) == {*new, *TASKS[1:]}
        assert [set(each.refused) for each in (created, ignored, reopened, deleted)] == [{held}] * 4
