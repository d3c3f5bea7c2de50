"""Steps that are paused for everybody: what is not started meanwhile, and when it is again."""

import asyncio
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from pynamodb.exceptions import GetError, UpdateError

from pynamodb_tracker import AsyncWorker, Report, Step, Task, TrackerError, UseCase, Worker
from pynamodb_tracker.control import item, watch
from pynamodb_tracker.dynamodb import connection
from pynamodb_tracker.testing import StoppedClock
from pynamodb_tracker.writes.lock import new_token
from tests.support.network import Network, error
from tests.support.recorder import recorded
from tests.support.rows import client, keys, put
from tests.support.workers import raising

HOUR = timedelta(hours=1)


class BankTask(Task):
    class Meta:
        table_name = "bank"
        region = "us-east-1"


class Order(BankTask):
    use_case_id = UseCase("order")

    reserve = Step(100)
    ship = Step(200)


class Plain(BankTask):
    use_case_id = UseCase("plain", pausable=False)

    send = Step(100)


TABLES = [BankTask]
CONTROL = {"task_id": {"S": "order"}, "use_case_id": {"S": "#control"}}
pytestmark = pytest.mark.usefixtures("table", "clock")


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    yield
    Order.reserve.function = Order.ship.function = None


def done(_ctx: object) -> None: ...


async def adone(_ctx: object) -> None: ...


def test_a_batch_starts_nothing_while_its_step_is_paused_and_starts_again_after(clock: StoppedClock) -> None:
    Order.create("o-1", state=Order.ship.pending)
    Order.create("o-2")
    pause = Order.ship.pause(until=HOUR, reason="the bank is down", by="ada")

    assert Order.ship.run_all(done) == Report(paused=True)
    assert asyncio.run(Order.ship.arun_all(adone)) == Report(paused=True)
    assert Order.reserve.run_all(done) == Report(succeeded=["o-2"])
    assert Order.pauses() == asyncio.run(Order.apauses()) == [pause]
    assert str(pause).endswith(", by ada: the bank is down")
    clock.advance(HOUR)
    assert Order.pauses() == []
    assert Order.ship.run_all(done).succeeded == ["o-1", "o-2"]


def test_a_pause_is_one_line_whatever_its_reason_is() -> None:
    pause = Order.ship.pause(until=None, reason="x\nERROR y\u2028z", by="ada\r\nbob")
    assert str(pause) == "ship is paused until it is resumed, by ada bob: x ERROR y z"


def test_a_clock_that_is_put_back_does_not_hide_a_pause(clock: StoppedClock) -> None:
    Order.create("o-1")
    assert Order.ship.run_all(done) == Report()  # reads that nothing is paused
    Order.ship.pause(until=None, reason="the bank is down")
    clock.advance(-HOUR)
    assert Order.ship.run_all(done) == Report(paused=True)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_batch_that_runs_ends_within_five_seconds_and_records_what_runs(clock: StoppedClock, threads: int) -> None:
    Order.create_many(f"o-{number}" for number in range(9))

    def pause(_ctx: object) -> None:
        Order.reserve.pause(until=None, reason="")
        clock.advance(timedelta(seconds=5))

    async def apause(_ctx: object) -> None:
        await Order.reserve.apause(until=None, reason="")
        clock.advance(timedelta(seconds=5))

    report = Order.reserve.run_all(pause, threads=threads)
    assert report.paused
    assert 1 <= len(report.succeeded) <= threads
    assert [report.failed, report.refused] == [[], {}]
    Order.reserve.resume()
    clock.advance(timedelta(seconds=5))
    report = asyncio.run(Order.reserve.arun_all(apause, concurrency=threads))
    assert (report.paused, 1 <= len(report.succeeded) <= threads) == (True, True)
    assert str(report).endswith(", and then the step was paused")


@pytest.mark.parametrize("kind", [Worker, AsyncWorker])
def test_a_paused_worker_is_idle_and_says_so_once(kind: Any, caplog: pytest.LogCaptureFixture) -> None:
    Order.create("o-1", state=Order.ship.pending)
    Order.create("o-2")
    Order.ship.pause(until=HOUR, reason="the bank is down", by="ada")

    def tally() -> Any:
        if kind is Worker:
            return Worker({Order.reserve: done, Order.ship: done}).run(until_idle=True)
        return asyncio.run(AsyncWorker({Order.reserve: adone, Order.ship: adone}).run(until_idle=True))

    with caplog.at_level(logging.INFO, "pynamodb_tracker"):
        found = tally()
    assert (found[Order.reserve].succeeded, found[Order.ship].succeeded) == (1, 0)
    assert [text for text in caplog.messages if "paused" in text] == [
        f"Order.ship: no more tasks start: {Order.pauses()[0]}"
    ]
    Order.ship.resume(by="ada")
    watch._known.forget()
    assert tally()[Order.ship].succeeded == 2


def test_a_run_of_one_task_does_not_look() -> None:
    Order.create("o-1")
    Order.reserve.pause(until=None, reason="")
    with recorded(BankTask) as requests:
        Order.reserve.run("o-1", done)
    assert requests.operations == ["UpdateItem", "UpdateItem"]


def test_the_item_is_read_once_in_five_seconds_however_many_ask(clock: StoppedClock) -> None:
    Order.create_many(f"o-{number}" for number in range(9))
    Order.reserve.run_all(done, limit=1)
    clock.advance(timedelta(seconds=5))
    with recorded(BankTask) as requests:
        Order.reserve.run_all(done, limit=2)
        Order.reserve.run_all(done, threads=2)
        Order.ship.run_all(done)
    reads = [request for request in requests if request.operation == "GetItem"]
    assert [read.answer["ConsumedCapacity"]["CapacityUnits"] for read in reads] == [0.5]


def test_without_control_nothing_is_read_and_a_pause_is_an_error() -> None:
    for ask in (lambda: Plain.send.pause(until=None, reason=""), Plain.pauses):
        with pytest.raises(TrackerError, match=r"steps of Plain cannot be paused or required: remove pausable=False"):
            ask()
    Plain.create("p-1")
    with recorded(BankTask) as requests:
        Plain.send.run_all(done)
    assert "GetItem" not in requests.operations


@pytest.mark.parametrize("until", [timedelta(0), timedelta(days=-1), "1h"])
def test_a_pause_ends_in_the_future(until: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="until must be"):
        Order.ship.pause(until=until, reason="")


def test_the_later_end_wins_and_a_resume_ends_both(clock: StoppedClock) -> None:
    first = Order.ship.pause(until=2 * HOUR, reason="the bank is down", by="ada")
    assert Order.ship.pause(until=HOUR, reason="me too", by="ben") == first
    clock.advance(timedelta(minutes=1))
    assert Order.ship.pause(until=None, reason="for good", by="ben").until is None
    assert [pause.reason for pause in Order.pauses()] == ["for good"]
    Order.ship.resume()
    assert Order.pauses() == []
    assert Order.ship.pause(until=HOUR, reason="again").until == clock.now() + HOUR


def test_what_was_read_last_holds_while_the_item_cannot_be_read(
    clock: StoppedClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    Order.create("o-1")
    pause = Order.reserve.pause(until=HOUR, reason="")
    assert Order.reserve.run_all(done).paused

    def failing(*_: object, **__: object) -> Any:
        raise GetError("down")

    for send, warnings in ((failing, 1), (failing, 1), (connection.send, 1), (failing, 2)):
        monkeypatch.setattr(item, "send", send)
        clock.advance(timedelta(seconds=5))
        assert Order.reserve.run_all(done).paused
        assert len(caplog.messages) == warnings
    text = caplog.messages[0]
    assert text.startswith("cannot read the control item of Order")
    assert text.endswith("(known pauses hold): down")
    watch._known.forget()
    assert pause.is_in_force
    assert Order.reserve.run_all(done).succeeded == ["o-1"]
    assert "pauses are unknown, and work continues" in caplog.messages[-1]


def test_pauses_are_known_to_a_process_that_may_not_record_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    Order.reserve.pause(until=HOUR, reason="")
    monkeypatch.setattr(item, "_has_written", raising(UpdateError("denied")))
    assert Order.reserve.run_all(done).paused


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of threads: the child starts none
@pytest.mark.parametrize("engine", ["moto"], indirect=True)
def test_a_process_that_is_forked_while_a_thread_reads_reads_for_itself() -> None:
    Order.reserve.run_all(done)
    with watch._known.of(Order).guard:
        if not (child := os.fork()):
            os._exit(watch._known.of(Order).guard.locked())
        assert os.waitpid(child, 0)[1] == 0


def test_what_was_read_through_another_connection_does_not_hold() -> None:
    Order.reserve.run_all(done)
    Order.create("o-1")
    BankTask.tracker.table.reconnect()
    Order.reserve.pause(until=None, reason="")
    assert Order.reserve.run_all(done).paused


def test_a_reason_is_short() -> None:
    assert len(Order.ship.pause(until=None, reason="x" * 1_000).reason) == 1_000
    with pytest.raises(ValueError, match="1,001 characters: write at most 1,000"):
        Order.ship.pause(until=None, reason="x" * 1_001)


def test_a_character_that_utf_8_lacks_is_stored_escaped() -> None:
    assert Order.ship.pause(until=None, reason="St\udcf6rung", by="\udcff").reason == "St\\udcf6rung"
    assert Order.pauses()[0].by == "\\udcff"


def test_the_item_is_no_task_and_goes_with_the_use_case() -> None:
    Order.create("o-1")
    Order.ship.pause(until=None, reason="", by="ada")
    Order.reserve.run_all(done)
    assert CONTROL in keys(BankTask)
    assert [task.task_id for task in BankTask.scan()] == ["o-1"]
    assert sum(Order.counts().values()) == 1
    Order.delete_use_case()
    assert list(keys(BankTask)) == []


@pytest.mark.parametrize(
    "damage", [{"until": "soon"}, {"until": "2999-01-01T00:00:00"}, {"time": "2026-01-01T00:00:00"}]
)
def test_an_item_that_another_program_has_damaged_is_named(damage: dict[str, str]) -> None:
    time = "2026-01-01T00:00:00+00:00"
    texts = {"token": "0" * 24, "until": time, "reason": "", "by": "ada", "time": time} | damage
    put(BankTask, {**CONTROL, "paused#200": {"M": {name: {"S": text} for name, text in texts.items()}}})
    with pytest.raises(TrackerError, match="cannot read the control item of 'order': another program has changed it"):
        Order.pauses()


def late(call: Callable[[], object]) -> Callable[[], bool]:
    """Make a call, and return what delivers a late copy of its first request: True if that was applied."""
    with recorded(BankTask) as requests:
        call()
    body = next(request.body for request in requests if request.operation == "UpdateItem")

    def deliver() -> bool:
        try:
            client(BankTask).update_item(**body)
        except client(BankTask).exceptions.ConditionalCheckFailedException:
            return False
        return True

    return deliver


def pause(until: timedelta = HOUR) -> object:
    return Order.ship.pause(until=until, reason="")


@pytest.mark.parametrize("command", [pause, Order.ship.resume])
@pytest.mark.parametrize("token", [{}, {"token": {"S": "zz"}}, {"token": {"S": "f" * 24}}])
def test_a_command_names_the_damaged_pause_that_stops_it(command: Callable[[], object], token: dict[str, Any]) -> None:
    put(BankTask, {**CONTROL, "paused#200": {"M": {**token, "until": {"S": "9"}}}})
    with pytest.raises(TrackerError, match=r"the control item of 'order'.*: the token of paused#200 is .*: remove"):
        command()


def late_pause() -> bool:
    deliver = late(pause)
    Order.ship.resume()
    return deliver()


def late_resume() -> bool:
    deliver = late(Order.ship.resume)
    pause()
    return deliver()


def late_resume_from_before_a_pause_that_was_kept() -> bool:
    pause(2 * HOUR)
    token = new_token()
    pause()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(item, "new_token", lambda: token)
        patch.setattr(item, "_TRIES", 1)
        with suppress(TrackerError, TypeError):
            Order.ship.resume()
    return Order.pauses() == []


def shorter_pause() -> bool:
    pause(2 * HOUR)
    pause()
    found = Order.pauses()[0]
    return not found.until or found.until < found.time + 2 * HOUR


_SHORTER = "attribute_not_exists(#pause.#until) OR #pause.#until < :until"
GUARDS: dict[Callable[[], bool], tuple[str, str, str]] = {
    late_pause: ("_SHORTER", "#pause.#token < :token", "#pause.#token <> :token"),
    late_resume: ("_EARLIER", "#pause.#token < :token", "#pause.#token <> :token"),
    late_resume_from_before_a_pause_that_was_kept: ("_KEEP", "#pause.#token = :token", "#mark = :mark"),
    shorter_pause: ("_SHORTER", _SHORTER, "attribute_exists(#pause) OR #pause.#until < :until"),
}


@pytest.mark.parametrize("trace", GUARDS)
def test_with_its_guard_a_command_breaks_no_promise(trace: Callable[[], bool]) -> None:
    assert not trace()


@pytest.mark.parametrize("trace", GUARDS)
def test_without_its_guard_it_does(trace: Callable[[], bool], monkeypatch: pytest.MonkeyPatch) -> None:
    name, guard, other = GUARDS[trace]
    assert guard in getattr(item, name)
    monkeypatch.setattr(item, name, getattr(item, name).replace(guard, other))
    assert trace()


@pytest.mark.parametrize(
    ("command", "lost", "sent", "left"),
    [(lambda: pause(3 * HOUR), 1, 3, [3 * HOUR]), (pause, 2, 5, [2 * HOUR]), (Order.ship.resume, 1, 3, [])],
    ids=["a longer pause", "a shorter pause", "a resume"],
)
def test_a_command_whose_answer_was_lost_finds_itself(
    network: Network, command: Callable[[], object], lost: int, sent: int, left: list[timedelta]
) -> None:
    pause(2 * HOUR)
    updates: list[str] = []

    def rule(operation: str, _request: object, send: Callable[[], Any]) -> Any:
        updates.extend([operation] if operation == "UpdateItem" else [])
        answer = send()
        if len(updates) == lost:
            raise error(operation, "InternalServerError")
        return answer

    network.rule = rule
    command()
    assert len(updates) == sent
    assert [found.until and found.until - found.time for found in Order.pauses()] == left


def test_a_command_whose_token_is_behind_takes_a_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    pause()
    monkeypatch.setattr(item, "new_token", lambda above=None: new_token(above) if above else "0" * 24)
    Order.ship.resume()
    assert Order.pauses() == []
    pause()
    assert len(Order.pauses()) == 1
