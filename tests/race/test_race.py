"""Real processes and threads race for tasks on dynoxide: nothing runs twice, nothing is left."""

import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import Repeat, TaskLockedError, TaskNotStartableError
from pynamodb_tracker.testing import StoppedClock
from tests.engine.actions import PASS, Action, After, DropRequest, Exchange, Rule
from tests.engine.engine import Engine
from tests.engine.proxy import Proxy
from tests.support.fixtures import Frozen
from tests.support.processes import Crew, Worker, crew, until
from tests.support.proxy_rules import in_turn

pytestmark = pytest.mark.race

LOCK = timedelta(minutes=5)
"""It outlasts the slowest machine. Tests that wait for its end move their own clock."""
MARGIN = timedelta(seconds=0.2)
OVER = LOCK + timedelta(minutes=1)


@pytest.fixture
def order(new_worker: Any, dynamodb: Engine) -> Any:
    return new_worker(dynamodb.endpoint, lock_for=LOCK, margin=MARGIN)


@pytest.fixture
def workers(dynamodb: Engine, table: str, name: str) -> Iterator[Crew]:
    with crew(dynamodb.endpoint, table, name, LOCK, MARGIN) as workers:
        yield workers


def test_8_processes_run_each_of_80_tasks_exactly_once(order: Any, workers: Crew) -> None:
    ids = [f"o-{number}" for number in range(80)]
    order.create_many(ids, threads=4)
    reports = workers.race([["run_some"]] * 8)
    assert Counter(task_id for report in reports for task_id in report["ran"]) == Counter(ids)
    assert order.confirm.succeeded.count() == 80


def test_2_processes_run_each_missed_occurrence_of_each_task_exactly_once(
    order: Any, workers: Crew, stopped_clock: StoppedClock
) -> None:
    stopped_clock.advance(-timedelta(hours=1))  # of this process only: for the others, four occurrences have passed
    began = stopped_clock.now().replace(microsecond=0)
    rule = Repeat.every(timedelta(minutes=17), start=began, missed="all")
    for task_id in ("r-1", "r-2"):
        order.create(task_id, repeat=rule)
    reports = workers.race([["catch_up"]] * 2)
    ran = sorted((task_id, occurrence) for report in reports for task_id, occurrence in report)
    occurrences = [(began + number * timedelta(minutes=17)).isoformat() for number in range(4)]
    assert ran == [(task_id, occurrence) for task_id in ("r-1", "r-2") for occurrence in occurrences]


@pytest.mark.parametrize("commands", [[["run_all"]] * 8, [["run_all", "16"], ["arun_all", "16"]] * 3])
def test_processes_that_run_all_run_each_of_160_tasks_exactly_once_and_rarely_meet(
    order: Any, workers: Crew, commands: list[list[str]]
) -> None:
    ids = [f"o-{number}" for number in range(160)]
    order.create_many(ids, threads=4)
    reports = workers.race(commands)
    assert Counter(task_id for report in reports for task_id in report["ran"]) == Counter(ids)
    assert order.confirm.succeeded.count() == 160
    # About 0.3 of the claims, and several for each task if all processes took the tasks in the same order.
    assert sum(report["refused"] for report in reports) <= 160


def test_12_threads_that_want_one_task_make_one_winner_in_every_round(order: Any) -> None:
    rounds, threads = 12, 12
    barrier = threading.Barrier(threads)

    def wants(task_id: str) -> int:
        barrier.wait(30)
        try:
            with order.confirm.start(task_id, detailed_error=False) as ctx:
                assert (ctx.attempt, ctx.task.fence) == (1, 1)
                return 1
        except TaskNotStartableError:
            return 0

    with ThreadPoolExecutor(threads) as pool:
        for number in range(rounds):
            task_id = order.create(f"o-{number}").task_id
            assert sum(pool.map(wants, [task_id] * threads)) == 1


def test_an_abandoned_task_is_taken_over_by_one_of_many(
    order: Any, workers: Crew, freeze: Callable[..., Frozen], stopped_clock: StoppedClock
) -> None:
    stopped_clock.advance(-OVER)  # of this process only: for the others, its locks have expired
    ids = [order.create(f"o-{number}").task_id for number in range(4)]
    for task_id in ids:
        freeze(order.confirm, task_id)
    won = [each for report in workers.race([["take", *ids]] * 4) for each in report]
    assert sorted(won) == sorted([task_id, 2, 2] for task_id in ids)


def test_processes_that_reopen_at_once_make_one_fresh_set_of_attempts(order: Any, workers: Crew) -> None:
    ids = [order.create(f"o-{number}").task_id for number in range(12)]
    for task_id in ids:
        with pytest.raises(ZeroDivisionError):
            order.confirm.run(task_id, lambda _: 1 / 0)
    assert workers.race([["reopen", *ids]] * 4) == [["confirm pending"] * len(ids)] * 4
    assert {order.get_task(task_id).attempt for task_id in ids} == {0}


def test_processes_that_ignore_at_once_leave_one_reason_on_record(order: Any, workers: Crew) -> None:
    ids = [order.create(f"o-{number}").task_id for number in range(12)]
    assert workers.race([["ignore", *ids]] * 4) == [["confirm ignored"] * len(ids)] * 4
    assert {len(order.get_task(task_id).errors) for task_id in ids} == {1}


def test_reopen_and_ignore_at_once_leave_each_task_in_one_of_both_states(order: Any, workers: Crew) -> None:
    ids = [order.create(f"o-{number}").task_id for number in range(12)]
    for task_id in ids:
        order.confirm.ignore(task_id, reason="a first time")
    reports = workers.race([["reopen", *ids], ["ignore", *ids]] * 2)
    assert {each for report in reports for each in report} <= {"confirm pending", "confirm ignored"}
    assert all(len(order.get_task(task_id).errors) <= 3 for task_id in ids)  # once, and once for each who ignores
    assert order.confirm.pending.count() + order.confirm.ignored.count() == len(ids)


@pytest.mark.parametrize(
    ("killed_at", "is_applied"), [(1, True), (2, True), (3, True), (3, False), (4, False), (5, False)]
)
def test_each_part_of_a_run_that_is_killed_is_done_once_and_the_interrupted_one_twice_with_one_key(
    order: Any, proxy: Proxy, table: str, name: str, stopped_clock: StoppedClock, *, killed_at: int, is_applied: bool
) -> None:
    order.create("o")
    told, keys = list[str](), list[str]()
    with crew(proxy.endpoint, table, name, LOCK, MARGIN) as workers:
        worker = workers.start("do_parts", "o")
        assert worker.hear() == "ready"
        proxy.rule = in_turn("UpdateItem", *[PASS] * (killed_at - 1), worker.kill if is_applied else DropRequest())
        proxy.rule = killing(proxy.rule, worker)
        worker.go()
        told = [worker.hear() for _ in range(min(killed_at - 1, 3))]
        assert worker.wait(30)
        proxy.wait_until_idle()
    stopped_clock.advance(OVER)
    with order.confirm.start("o") as ctx:
        for each in ("reserve", "charge", "mail"):
            ctx.checkpoint(each, lambda each=each: keys.append(f"{each} {ctx.key(each)}"))
    twice = {told[-1]} if not is_applied and killed_at in (2, 3, 4) else set()
    assert [each.partition(" ")[0] for each in dict.fromkeys([*told, *keys])] == ["reserve", "charge", "mail"]
    assert {each for each, times in Counter([*told, *keys]).items() if times > 1} == twice


def killing(rule: Rule, worker: Worker) -> Rule:
    """Return a rule that also kills the worker whose request it drops."""

    def kill(target: str, body: Any, ordinal: int) -> Action:
        action = rule(target, body, ordinal)
        if isinstance(action, DropRequest):
            worker.kill()
        return action

    return kill


def test_ctrl_c_while_the_answer_to_a_claim_is_awaited_releases_the_task(
    order: Any, proxy: Proxy, table: str, name: str
) -> None:
    def claim() -> Exchange:
        return next(exchange for exchange in proxy.log if exchange.target == "UpdateItem")

    order.create("o")
    with crew(proxy.endpoint, table, name, LOCK, MARGIN) as workers:
        worker = workers.start("hold", "o")
        assert worker.hear() == "ready"
        interrupt = in_turn("UpdateItem", lambda: worker.signal(signal.SIGINT))
        # Its read arrives after the claim, whose answer is not awaited any more, has been applied.
        proxy.rule = lambda target, *seen: After(claim().done) if target == "GetItem" else interrupt(target, *seen)
        worker.go()
        assert worker.wait(30) == 1
    assert order.get_task("o").fence == 1
    assert order.confirm.run("o", lambda ctx: (ctx.attempt, ctx.task.fence)) == (1, 2)


def test_an_async_worker_that_is_terminated_spends_no_attempt_and_one_that_is_killed_spends_one_of_each_task(
    order: Any, workers: Crew, stopped_clock: StoppedClock
) -> None:
    order.create_many([f"o-{number}" for number in range(16)], threads=4)
    attempts = Counter[int]()
    killed, terminated = workers.start("aworker"), workers.start("aworker")
    for worker in (killed, terminated):
        assert worker.hear() == "ready"
        worker.go()
    until(lambda: order.confirm.in_progress.count() == 16)
    terminated.signal(signal.SIGTERM)
    killed.kill()
    assert terminated.report() == [0, 8]
    killed.wait()
    stopped_clock.advance(OVER)
    order.confirm.run_all(lambda ctx: attempts.update([ctx.attempt]))
    assert attempts == {1: 8, 2: 8}


@pytest.mark.parametrize("command", ["hold", "ahold"])
def test_ctrl_c_inside_a_run_releases_the_task_at_once(order: Any, workers: Crew, command: str) -> None:
    order.create("o")
    worker = workers.start(command, "o")
    worker.hear()
    worker.go()
    assert worker.hear() == "inside"
    with pytest.raises(TaskLockedError):
        order.confirm.run("o", lambda _: None)
    worker.signal(signal.SIGINT)
    worker.wait(30)
    assert order.confirm.run("o", lambda ctx: (ctx.attempt, ctx.task.fence)) == (1, 2)


def test_children_that_succeed_at_once_are_all_counted_and_their_parent_starts_after_the_last(order: Any) -> None:
    ids = [f"o/{number}" for number in range(20)]
    order.create("o")
    with order.confirm.start("o") as ctx:
        for child in ids:
            ctx.create(order, child, wait=True)
    order.confirm.run_all(lambda _: None, threads=8)
    seen = []

    def ship(ctx: Any) -> None:
        if ctx.task.task_id == "o":
            seen.append([child.state for child in order.get_many(ids)])

    while not seen:
        order.ship.run_all(ship, threads=16)
    assert seen == [[order.ship.succeeded] * len(ids)]
    assert order.get_task("o").blockers is None
