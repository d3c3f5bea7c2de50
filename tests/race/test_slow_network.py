"""A network that is slow or dead: calls end soon after the lock has expired, and no task stays locked."""

import contextlib
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import botocore.session
import pynamodb.connection.base
import pytest
from pynamodb.exceptions import GetError, PutError, UpdateError

from pynamodb_tracker import TaskLockedError, TaskNotStartableError, clock
from pynamodb_tracker.dynamodb import retries
from pynamodb_tracker.dynamodb.connection import SharedConnection
from pynamodb_tracker.testing import StoppedClock
from tests.engine.actions import PASS, THROTTLED, Action, Delay, DropRequest, DropResponse, Fail, Rule
from tests.engine.proxy import Proxy
from tests.support.fixtures import Frozen
from tests.support.operations import Boom
from tests.support.orders import LOCK
from tests.support.proxy_rules import in_turn, targets

SILENT = Delay(50)
"""A client that waits for 60 seconds gets this answer. Only one whose timeouts end with the lock gets an error."""

SHORT = timedelta(seconds=1)

Worker = Callable[..., Any]


@pytest.fixture
def worker(new_worker: Worker, proxy: Proxy) -> Worker:
    """Return a function that declares a worker behind the proxy, whose SDK tries as often as it says, and a task."""

    def declare(*, tries: int = 2, read: float = 5, **options: Any) -> Any:
        order = new_worker(proxy.endpoint, **options)
        order.Meta.max_retry_attempts, order.Meta.read_timeout_seconds = tries - 1, read
        order.create("o")
        return order

    return declare


@pytest.fixture
def timeouts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, float]]:
    """Return the timeouts, to connect and to read, of the clients that are built from now on."""
    built: list[tuple[float, float]] = []
    original = botocore.session.Session.create_client

    def create_client(*args: Any, **options: Any) -> Any:
        client = original(*args, **options)
        built.append((client.meta.config.connect_timeout, client.meta.config.read_timeout))
        return client

    monkeypatch.setattr(botocore.session.Session, "create_client", create_client)
    return built


def silent(*silenced: str) -> Rule:
    """Return a rule that answers no request of these targets."""
    return lambda target, *_: SILENT if target in silenced else PASS


def times(action: Action, *, target: str = "UpdateItem", number: int) -> Rule:
    """Return a rule that does the same to that many requests of a target."""
    return in_turn(target, *[action] * number)


def test_a_start_that_gets_no_answer_ends_soon_after_the_lock_would_have(
    worker: Worker, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "SHORTEST_TIMEOUT", 0.1)  # nothing but silence depends on it
    order = worker(lock_for=SHORT, read=60)
    proxy.rule = silent("UpdateItem", "GetItem")
    with pytest.raises(UpdateError):
        order.confirm.run("o", lambda _: pytest.fail("the block runs"))
    assert targets(proxy)[1:] == ["UpdateItem"] * 2 + ["GetItem"] * 2  # tried as often as Meta says


@pytest.mark.parametrize("error", [None, Boom()], ids=["success", "failure"])
def test_a_finish_without_an_answer_fails_soon_after_the_lock_has_expired(
    worker: Worker, proxy: Proxy, error: Boom | None
) -> None:
    order = worker(lock_for=SHORT, read=60)
    run = Frozen(order.confirm.start("o"))
    proxy.rule = silent("UpdateItem")
    with pytest.raises(Boom if error else UpdateError):
        run.wake(error)
    assert order.get_task("o").state == order.confirm.in_progress


def test_the_read_after_a_refused_finish_fails_as_soon_as_the_finish_itself(worker: Worker, proxy: Proxy) -> None:
    order = worker(lock_for=SHORT, read=60)
    run = Frozen(order.confirm.start("o"))
    refused = in_turn("UpdateItem", DropResponse())  # it was applied, and the SDK sends it once more
    proxy.rule = lambda target, *seen: SILENT if target == "GetItem" else refused(target, *seen)
    with pytest.raises(GetError):
        run.wake()


def test_a_finish_after_the_lock_has_expired_is_tried_once(
    worker: Worker, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = worker(tries=1)
    run = Frozen(order.confirm.start("o"))
    monkeypatch.setattr(clock.Clock, "seconds_until", lambda *_: -1.0)
    proxy.rule = times(Delay(0.3), number=1)
    run.wake()
    assert targets(proxy) == ["PutItem", "UpdateItem", "UpdateItem"]


@pytest.mark.parametrize(
    ("lock_for", "built"),
    [
        (timedelta(minutes=5), [(3, 5)]),
        (timedelta(seconds=40), [(3, 5)]),  # 4 tries of 8 seconds fit into it
        (timedelta(seconds=20), [(3, 5), (1.5, 2.5)]),
        (timedelta(seconds=10), [(3, 5), (0.75, 1.25)]),
        (timedelta(seconds=3), [(3, 5), (0.5, 0.625)]),
    ],
    ids=str,
)
def test_timeouts_are_halved_until_all_tries_of_the_sdk_fit_into_the_lock(
    worker: Worker, timeouts: list[tuple[float, float]], lock_for: timedelta, built: list[tuple[float, float]]
) -> None:
    order = worker(tries=4, lock_for=lock_for)
    with order.confirm.start("o") as ctx:
        ctx.task.note = "half way"
        ctx.save()
    assert timeouts == built


def test_no_timeout_is_longer_than_the_users(worker: Worker, timeouts: list[tuple[float, float]]) -> None:
    order = worker(read=0.3, lock_for=SHORT)
    order.confirm.run("o", lambda _: None)
    assert timeouts == [(3, 0.3), (0.75, 0.3)]


@pytest.mark.parametrize(
    ("environment", "longest"),
    [
        ({}, 32),
        ({"AWS_MAX_ATTEMPTS": "2"}, 16),
        ({"AWS_MAX_ATTEMPTS": "3000"}, 24_000),
        ({"AWS_RETRY_MODE": "legacy"}, 80),
    ],
    ids=["as the SDK has it", "a number", "a large number", "a mode"],
)
def test_the_number_of_retries_in_the_environment_is_used_and_not_changed(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], longest: float
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    connection = SharedConnection(
        region="us-east-1", retry_configuration="UNSET", connect_timeout_seconds=3, read_timeout_seconds=5
    )
    hurried = connection.within(longest - 1)
    assert connection.within(longest) is connection
    assert hurried is not connection
    assert hurried.client.meta.config.retries == connection.client.meta.config.retries


def test_threads_that_need_short_timeouts_build_one_more_client(
    worker: Worker, timeouts: list[tuple[float, float]]
) -> None:
    order = worker(lock_for=SHORT)
    ids = order.create_many([f"o-{number}" for number in range(8)]).succeeded
    barrier = threading.Barrier(8)

    def run(task_id: str) -> None:
        barrier.wait(30)
        order.confirm.run(task_id, lambda _: None)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, ids))
    assert timeouts == [(3, 5), (0.5, 0.625)]


def test_clients_are_built_one_after_the_other_from_one_session(
    monkeypatch: pytest.MonkeyPatch, session: botocore.session.Session
) -> None:
    sessions: list[botocore.session.Session] = []
    met: list[int] = []
    meeting = threading.Barrier(2, action=lambda: met.append(1), timeout=0.2)
    original = botocore.session.Session.create_client

    def get_session() -> botocore.session.Session:
        sessions.append(session)
        return session

    def create_client(*args: Any, **options: Any) -> Any:
        with contextlib.suppress(threading.BrokenBarrierError):
            meeting.wait()
        return original(*args, **options)

    monkeypatch.setattr(pynamodb.connection.base, "get_session", get_session)
    connection = SharedConnection(region="us-east-1", connect_timeout_seconds=3, read_timeout_seconds=5)
    hurried = [connection.within(seconds) for seconds in (20, 10)]
    monkeypatch.setattr(botocore.session.Session, "create_client", create_client)
    with ThreadPoolExecutor(2) as pool:
        clients = list(pool.map(lambda each: each.client, hurried))
    assert (len({id(client) for client in clients}), len(sessions), met) == (2, 1, [])


@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.parametrize(
    ("action", "note", "fence"), [(DropResponse(), "was released", 2), (DropRequest(), "was not locked", 1)], ids=str
)
def test_a_claim_without_an_answer_is_released_if_it_locked_the_task(
    worker: Worker, rival: Any, proxy: Proxy, *, action: Action, note: str, fence: int
) -> None:
    order = worker()
    proxy.rule = times(action, number=2)
    with pytest.raises(UpdateError) as error:
        order.confirm.run("o", lambda _: pytest.fail("the block runs"))
    assert note in error.value.__notes__[0]
    assert rival.confirm.run("o", lambda ctx: (ctx.attempt, ctx.task.fence)) == (1, fence)


@pytest.mark.usefixtures("stopped_clock")
def test_a_claim_without_an_answer_does_not_release_another_workers_lock(
    worker: Worker, rival: Any, proxy: Proxy, freeze: Callable[..., Frozen]
) -> None:
    order = worker()
    frozen = freeze(rival.confirm, "o")
    proxy.rule = times(DropRequest(), number=2)
    with pytest.raises(UpdateError):
        order.confirm.run("o", lambda _: pytest.fail("the block runs"))
    frozen.wake()
    assert rival.get_task("o").state == rival.ship.pending


def test_a_claim_that_cannot_be_released_says_until_when_the_task_may_be_locked(
    worker: Worker, rival: Any, proxy: Proxy, stopped_clock: StoppedClock
) -> None:
    order = worker()
    gone = times(DropResponse(), number=2)
    proxy.rule = lambda target, *seen: DropRequest() if target == "GetItem" else gone(target, *seen)
    with pytest.raises(UpdateError) as error:
        order.confirm.run("o", lambda _: pytest.fail("the block runs"))
    (note,) = error.value.__notes__
    assert "could not be released" in note
    assert f"until {stopped_clock.now() + LOCK}" in note
    with pytest.raises(TaskLockedError):
        rival.confirm.run("o", lambda _: None)


@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.parametrize("tries", [1, 3])
def test_what_is_throttled_is_sent_six_times_and_each_time_as_often_as_meta_says(
    worker: Worker, proxy: Proxy, tries: int
) -> None:
    order = worker(tries=tries)
    proxy.rule = lambda target, *_: THROTTLED if target == "UpdateItem" else PASS
    with pytest.raises(UpdateError) as error:
        order.confirm.run("o", lambda _: pytest.fail("the block runs"))
    assert targets(proxy)[1:] == ["UpdateItem"] * 6 * tries
    assert not hasattr(error.value, "__notes__")  # a request that is throttled was not applied


@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.parametrize("tries", [1, 3])
def test_a_lost_connection_is_tried_again_by_the_sdk_alone(worker: Worker, proxy: Proxy, tries: int) -> None:
    order = worker(tries=tries)
    proxy.rule = lambda *_: DropRequest()
    with pytest.raises(PutError):
        order.create("p")
    assert targets(proxy)[1:] == ["PutItem"] * tries


def applied(rival: Any, answer: Fail) -> Callable[[str, dict[str, Any], int], Action]:
    """Return a rule that carries the first update out, and answers that it failed."""
    left = [answer]

    def rule(target: str, body: dict[str, Any], _ordinal: int) -> Action:
        if target != "UpdateItem" or not left:
            return PASS
        rival.tracker.connection().connection.client.update_item(**body)
        return left.pop()

    return rule


@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.parametrize("tries", [1, 2])
@pytest.mark.parametrize("detailed_error", [True, False])
def test_a_claim_that_was_applied_despite_a_server_error_continues(
    worker: Worker, rival: Any, proxy: Proxy, *, detailed_error: bool, tries: int
) -> None:
    order = worker(tries=tries)
    proxy.rule = applied(rival, Fail(500))
    with order.confirm.start("o", detailed_error=detailed_error) as ctx:
        assert (ctx.attempt, ctx.task.fence) == (1, 1)
    assert order.get_task("o").state == order.ship.pending


@pytest.mark.usefixtures("stopped_clock")
def test_a_claim_that_was_throttled_after_its_answer_was_lost_continues(worker: Worker, proxy: Proxy) -> None:
    order = worker(tries=2)
    proxy.rule = in_turn("UpdateItem", DropResponse(), THROTTLED)  # both by the SDK: what follows is sent by us
    with order.confirm.start("o", detailed_error=False) as ctx:
        assert (ctx.attempt, ctx.task.fence) == (1, 1)


@pytest.mark.usefixtures("stopped_clock")
def test_a_refusal_after_a_conflict_is_not_examined_without_detail(
    worker: Worker, rival: Any, proxy: Proxy, freeze: Callable[..., Frozen]
) -> None:
    order = worker(tries=1)
    freeze(rival.confirm, "o")
    proxy.rule = times(Fail(400, "TransactionConflictException"), number=2)
    with pytest.raises(TaskNotStartableError):
        order.confirm.run("o", lambda _: pytest.fail("the block runs"), detailed_error=False)
    assert targets(proxy)[1:] == ["UpdateItem"] * 3


def test_the_log_says_of_finished_work_that_it_was_not_recorded(
    worker: Worker, proxy: Proxy, stopped_clock: StoppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    order = worker()
    run = Frozen(order.confirm.start("o"))
    proxy.rule = lambda target, *_: DropRequest() if target == "UpdateItem" else PASS
    with caplog.at_level(logging.ERROR, "pynamodb_tracker"), pytest.raises(UpdateError) as error:
        run.wake()
    (record,) = caplog.records
    for told in (record.getMessage(), error.value.__notes__[0]):
        assert "was done, and its success may have been recorded" in told
        assert "confirm of Order 'o'" in told
        assert f"taken over after {run.ctx.lock_expire_time}" in told
    assert (record.task_id, record.step, record.attempt) == ("o", "confirm", 1)  # type: ignore[attr-defined]  # extra
    assert stopped_clock.now() <= run.ctx.lock_expire_time
