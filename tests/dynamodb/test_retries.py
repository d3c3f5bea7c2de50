"""When a request is sent again, and what is known of it afterwards."""

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any
from unittest import mock

import botocore
import pytest
from botocore.exceptions import ClientError
from pynamodb.attributes import UnicodeAttribute
from pynamodb.exceptions import GetError, PynamoDBConnectionError, UpdateError
from pynamodb.models import Model

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import get_items
from pynamodb_tracker.dynamodb.error_codes import is_in_doubt, is_of_sdk
from pynamodb_tracker.dynamodb.retries import ending_by, latest_response, slept_before_retry, stopped_by
from pynamodb_tracker.testing import StoppedClock
from pynamodb_tracker.work.threads import in_threads
from tests.support.jobs import Job, JobTask, jobs
from tests.support.network import Network
from tests.support.paced_clock import PATIENCE, StandingClock
from tests.support.sdk_faults import FAULTS, Fault, Sdk

SOON = timedelta(seconds=3)


class Payment(Model):
    class Meta:
        table_name = "payments"
        region = "us-east-1"

    id = UnicodeAttribute(hash_key=True)


@pytest.fixture(scope="module")
def sdk() -> Iterator[Sdk]:
    with jobs(retries=1) as sdk, mock.patch("botocore.endpoint.time.sleep"):
        yield sdk


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    network = Network()
    connection = JobTask.tracker.connection().connection
    original = connection.dispatch
    monkeypatch.setattr(
        connection,
        "dispatch",
        lambda operation, request: network.rule(operation, request, lambda: original(operation, request)),
    )
    return network


def fault(name: str) -> Fault:
    return next(each for each in FAULTS if each.name == name)


def test_a_deadline_within_another_one_does_not_move_it(stopped_clock: StoppedClock) -> None:
    soon, later = stopped_clock.now() + SOON, stopped_clock.now() + 2 * SOON
    with ending_by(soon), ending_by(later), ending_by(None):
        assert latest_response(None) == latest_response(later) == soon


def test_no_retry_is_begun_that_may_end_after_the_deadline(stopped_clock: StoppedClock) -> None:
    deadline = stopped_clock.now() + SOON
    with ending_by(deadline):
        while slept_before_retry(3):
            pass
    assert stopped_clock.now() <= deadline - timedelta(seconds=1)


@pytest.mark.parametrize("kind", ["lock", "deadline"])
def test_a_pause_that_would_pass_the_end_is_shortened_once(
    monkeypatch: pytest.MonkeyPatch, stopped_clock: StoppedClock, kind: str
) -> None:
    end = stopped_clock.now() + SOON
    monkeypatch.setattr("pynamodb_tracker.dynamodb.retries.jittered_pause", lambda *_, **__: 5.0)
    with ending_by(end if kind == "deadline" else None):
        slept = [slept_before_retry(9, end if kind == "lock" else None) for _ in range(3)]
    assert slept == [True, False, False]
    assert stopped_clock.now() == end - timedelta(seconds=1)


def test_a_pause_ends_soon_after_it_is_stopped(monkeypatch: pytest.MonkeyPatch, stopped_clock: StoppedClock) -> None:
    stop, begun = threading.Event(), stopped_clock.now()
    monkeypatch.setattr("pynamodb_tracker.dynamodb.retries.jittered_pause", lambda *_, **__: 5.0)
    sleep = stopped_clock.sleep

    def stop_soon(seconds: float) -> None:
        sleep(seconds)
        stop.set()

    monkeypatch.setattr(stopped_clock, "sleep", stop_soon)

    with stopped_by(stop), stopped_by(threading.Event()):
        assert not slept_before_retry(0)

    assert stopped_clock.now() - begun == timedelta(seconds=0.25)


PASSING = {"ThrottlingException", "InternalServerError", "ServiceUnavailable"}


@pytest.mark.parametrize("given", [each for each in FAULTS if each.name not in PASSING], ids=str)
def test_a_claim_is_given_up_at_once_if_it_could_not_be_signed_or_was_denied(
    sdk: Sdk, stopped_clock: StoppedClock, given: Fault
) -> None:
    task_id, begun = f"t-{given}", stopped_clock.now()
    Job.create(task_id)
    sdk.fails(given)
    with pytest.raises(PynamoDBConnectionError):
        Job.work.run(task_id, lambda _: pytest.fail("the block runs"))
    sdk.fails(None)

    assert stopped_clock.now() == begun or given.may_be_applied  # the claim is then given back, for some seconds
    assert stopped_clock.now() - begun <= timedelta(seconds=5)


@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.parametrize(
    ("first", "may_be_applied"), [("no response in time", True), ("name of the host", False)], ids=["lost", "not sent"]
)
def test_what_became_of_an_earlier_try_of_the_sdk_is_known(sdk: Sdk, first: str, *, may_be_applied: bool) -> None:
    task_id = f"earlier {first}"
    Job.create(task_id)
    sdk.fails_in_turn(fault(first), fault("AccessDeniedException"))
    with pytest.raises(UpdateError, match="AccessDenied") as raised:
        Job.work.ignore(task_id, reason="of the test")

    assert sdk.failures == 2
    assert is_in_doubt(raised.value) is may_be_applied


def in_pieces(size: int) -> Callable[..., Any]:
    """Answer a BatchGetItem for so many keys at a time."""

    def rule(operation: str, request: Any, send: Callable[[], Any]) -> Any:
        if operation != "BatchGetItem":
            return send()
        keys = request["RequestItems"]["jobs"].pop("Keys")
        request["RequestItems"]["jobs"]["Keys"] = keys[:size] or keys[:1]
        answer = send()
        if not size:
            answer["Responses"] = {}
        left = keys[size:]
        return {**answer, "UnprocessedKeys": {"jobs": {"Keys": left}} if left else {}}

    return rule


@pytest.mark.usefixtures("sdk")
def test_items_that_come_one_by_one_are_all_read_soon_and_that_is_logged_once(
    network: Network, stopped_clock: StoppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    ids = [f"piece-{number}" for number in range(30)]
    Job.create_many(ids)
    begun, network.rule = stopped_clock.now(), in_pieces(1)

    found = list(get_items(JobTask.tracker.connection(), [Job.tracker.key(task_id) for task_id in ids]))

    assert len(found) == 30
    assert stopped_clock.now() - begun <= timedelta(seconds=30 * 0.05)
    assert [text for text in caplog.messages if "small pieces" in text] == [
        "the table jobs returns BatchGetItem in small pieces: 24 keys remain after 6 requests"
    ]


@pytest.mark.usefixtures("sdk", "stopped_clock")
def test_keys_that_are_never_processed_are_an_error(network: Network) -> None:
    network.rule = in_pieces(0)
    with pytest.raises(GetError, match="2 keys were not processed"):
        list(get_items(JobTask.tracker.connection(), [Job.tracker.key("a"), Job.tracker.key("b")]))


@pytest.mark.usefixtures("sdk")
def test_small_pieces_end_at_the_deadline(network: Network, stopped_clock: StoppedClock) -> None:
    network.rule, deadline = in_pieces(1), stopped_clock.now() + timedelta(seconds=1.1)
    keys = [Job.tracker.key(f"k-{number}") for number in range(100)]
    with ending_by(deadline), pytest.raises(GetError, match="were not processed"):
        list(get_items(JobTask.tracker.connection(), keys))
    assert stopped_clock.now() <= deadline


DENIED = "User: x is not authorized to perform: dynamodb:{} on resource: arn:aws:dynamodb:us-east-1:1:table/{} because"


@pytest.mark.usefixtures("sdk")
@pytest.mark.parametrize(
    ("operation", "table", "is_final"),
    [("PutItem", "payments", True), ("UpdateItem", "jobs", False), ("PutItem", "others", False)],
)
def test_a_transaction_is_given_up_if_a_write_of_the_user_is_denied(
    network: Network, stopped_clock: StoppedClock, operation: str, table: str, *, is_final: bool
) -> None:
    task_id, begun, denials = f"t-{operation}-{table}", stopped_clock.now(), [1, 1]
    Job.create(task_id)

    def rule(name: str, _request: Any, send: Callable[[], Any]) -> Any:
        if name == "TransactWriteItems":
            if not denials:
                return {}
            denials.pop()
            raise _denied(name, DENIED.format(operation, table))
        return send()

    network.rule = rule
    with Job.work.start(task_id, skip_error=True) as ctx, ctx.transaction() as transaction:
        transaction.save(Payment("p-1"))

    assert (len(denials) == 1) is is_final
    assert (stopped_clock.now() == begun) is is_final
    assert (Job.get_task(task_id).state == Job.work.failed) is is_final


def _denied(operation: str, message: str) -> ClientError:
    return ClientError({"Error": {"Code": "AccessDeniedException", "Message": message}}, operation)


@pytest.mark.skipif(
    tuple(map(int, botocore.__version__.split(".")[:2])) < (1, 44), reason="this botocore obeys no such header"
)
@pytest.mark.usefixtures("sdk")
def test_a_response_asking_for_a_long_pause_is_ignored_before_a_deadline(sdk: Sdk, stopped_clock: StoppedClock) -> None:
    Job.create("t-pause")
    sdk.headers = {"x-amz-retry-after": "5000"}
    sdk.fails(fault("ThrottlingException"), 1)
    with (
        mock.patch("botocore.endpoint.time.sleep", side_effect=AssertionError("the SDK pauses")),
        ending_by(stopped_clock.now() + timedelta(seconds=30)),
    ):
        Job.work.run("t-pause", lambda _: None)
    sdk.headers = {}

    assert sdk.failures == 1
    assert Job.get_task("t-pause").state == Job.work.succeeded


def denied_after(blocks: threading.Semaphore, tries: threading.Semaphore) -> Callable[..., Any]:
    """Deny writes once a block has ended."""

    def rule(operation: str, _request: Any, send: Callable[[], Any]) -> Any:
        if operation != "UpdateItem" or not blocks._value:
            return send()
        tries.release()
        raise _denied(operation, "of the test")

    return rule


@pytest.fixture
def standing() -> Iterator[None]:
    before = clock.use(StandingClock())
    yield
    clock.use(before)


@pytest.mark.usefixtures("sdk", "standing")
def test_a_cancelled_asyncio_task_sends_its_end_no_more(network: Network) -> None:
    Job.create("t-cancelled")
    blocks, tries = threading.Semaphore(0), threading.Semaphore(0)
    network.rule = denied_after(blocks, tries)

    async def block(_: object) -> None:
        blocks.release()

    async def cancel() -> None:
        task = asyncio.create_task(Job.work.arun("t-cancelled", block))
        await asyncio.to_thread(lambda: [tries.acquire(timeout=PATIENCE) for _ in range(10)])
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as raised:
            await task
        assert isinstance(raised.value.__cause__, UpdateError)

    asyncio.run(cancel())
    assert Job.get_task("t-cancelled").state == Job.work.in_progress


@pytest.mark.usefixtures("sdk", "standing")
def test_a_second_interrupt_ends_what_a_pool_could_not_record(network: Network) -> None:
    ids = ["t-pool-1", "t-pool-2"]
    Job.create_many(ids)
    blocks, tries = threading.Semaphore(0), threading.Semaphore(0)
    network.rule = denied_after(blocks, tries)
    shutdown = ThreadPoolExecutor.shutdown

    def interrupted(pool: ThreadPoolExecutor, **_: Any) -> None:
        shutdown(pool, wait=False)
        assert all(tries.acquire(timeout=PATIENCE) for _ in range(10))
        raise KeyboardInterrupt("the second one")

    def run(task_id: str) -> None:
        with suppress(UpdateError):
            Job.work.run(task_id, lambda _: blocks.release())
        ended.release()

    def interrupt() -> Iterator[str]:
        yield from ids
        raise KeyboardInterrupt

    ended = threading.Semaphore(0)
    with (
        mock.patch.object(ThreadPoolExecutor, "shutdown", interrupted),
        pytest.raises(KeyboardInterrupt, match="second"),
    ):
        in_threads(run, interrupt(), 3)

    assert all(ended.acquire(timeout=PATIENCE) for _ in ids)


def test_a_block_that_outlives_its_lock_is_logged_once(
    sdk: Sdk, stopped_clock: StoppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    sdk.fails(None)
    for task_id, minutes in {"t-late": 3, "t-in-time": 1}.items():
        Job.create(task_id)
        Job.work.run(task_id, lambda _, minutes=minutes: stopped_clock.advance(timedelta(minutes=minutes)))  # type: ignore[misc]
    (text,) = caplog.messages
    assert text.startswith("the block of work of Job 't-late' (attempt 1) ended after its lock had expired at ")


@pytest.mark.parametrize("mistake", [TypeError("a hook of the program"), RecursionError()])
def test_a_mistake_in_a_hook_of_the_sdk_is_no_fault_that_passes(mistake: Exception) -> None:
    assert is_of_sdk(FileNotFoundError())
    assert not is_of_sdk(mistake)


def test_the_exception_of_a_signal_handler_is_not_taken_for_one_of_the_sdk() -> None:
    def handler(*_: object) -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError) as raised:
        handler(signal.SIGALRM, sys._getframe())
    assert not is_of_sdk(raised.value)
