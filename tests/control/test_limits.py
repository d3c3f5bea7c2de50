"""Limits: how many tasks run at once, in whichever programs, and what becomes of slots."""

import asyncio
import json
import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from pynamodb.exceptions import UpdateError

from pynamodb_tracker import (
    AsyncWorker,
    ConcurrencyLimit,
    ConcurrencyLimitReachedError,
    Report,
    Step,
    Task,
    TaskNotFoundError,
    UseCase,
    Worker,
)
from pynamodb_tracker import clock as time_of_day
from pynamodb_tracker.aws_lambda import Replies, handles
from pynamodb_tracker.control import limit, slots
from pynamodb_tracker.control.limit import LIFETIME, SlotTable, StoredSlot, Taken
from pynamodb_tracker.control.slots import IDLE_FOR, LOOK_EVERY, USED_FOR, LimitSlots, renew_due
from pynamodb_tracker.dynamodb.retries import deadline
from pynamodb_tracker.dynamodb.side_by_side import side_by_side
from pynamodb_tracker.model.worker_name import this_worker, working_as
from pynamodb_tracker.testing import StoppedClock, http_event
from pynamodb_tracker.work.candidates import ClaimWindow
from pynamodb_tracker.work.source import StepSource
from pynamodb_tracker.work.task_executor import TaskExecutor
from pynamodb_tracker.worker.shutdown import Messages
from pynamodb_tracker.worker.team import ThreadTeam, WorkerSettings
from pynamodb_tracker.writes.lock import new_token
from tests.aws_lambda.events import sqs
from tests.support.processes import until as poll_until
from tests.support.recorder import Requests, recorded
from tests.support.rows import all_rows, put, remove
from tests.support.workers import FrozenError, raising

bank = ConcurrencyLimit("bank", 2)
SECOND = timedelta(seconds=1)


class BankTask(Task):
    class Meta:
        table_name = "bank"
        region = "us-east-1"


class Order(BankTask):
    use_case_id = UseCase("order")

    pay = Step(100, concurrency_limit=bank)
    ship = Step(200)


class Refund(BankTask):
    use_case_id = UseCase("refund")

    pay = Step(100, concurrency_limit=bank)


class Letter(BankTask):
    use_case_id = UseCase("letter")

    send = Step(100, concurrency_limit=ConcurrencyLimit("post", 2))


TABLES = [BankTask]
MOTO = pytest.mark.parametrize("engine", ["moto"], indirect=True)  # where no condition matters
pytestmark = pytest.mark.usefixtures("table", "clock")


@pytest.fixture(autouse=True)
def keepers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Let each test begin as a process that has no slot, and in which no thread renews any; return what would."""
    slots._forget()
    keepers = slots._keepers
    monkeypatch.setattr(slots, "_keepers", ())
    yield keepers
    slots._forget()  # nothing to give back at the end of the tests


@pytest.fixture
def other() -> LimitSlots:
    return LimitSlots(SlotTable(BankTask.tracker.connection(), "bank", BankTask.tracker.margin))


def mine() -> LimitSlots:
    return slots.slots_of(Order, bank)


def took(by: LimitSlots, one: ConcurrencyLimit = bank) -> Any:
    slot: Any = by.take(one, "")
    return slot


def held() -> list[str]:
    """Return the keys of the slots that somebody has."""
    items = [*all_rows(BankTask)]
    return [item["task_id"]["S"] for item in items if item["use_case_id"]["S"] == "#limit" and "worker" in item]


@contextmanager
def without_waiting(clock: StoppedClock) -> Iterator[None]:
    """Let the clock go on, and fail, if the block still waits for that after a minute."""
    over, is_late = threading.Event(), threading.Event()

    def go_on() -> None:
        if not over.wait(60):
            is_late.set()
            while not over.wait(0.01):
                clock.advance(SECOND)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert not is_late.is_set()


def about_slots(requests: Requests) -> int:
    return sum("#limit" in json.dumps(request.body) for request in requests)


class Counted:
    """A function that counts how many calls of it run at once; two of them wait for each other."""

    def __init__(self) -> None:
        self.most = self.running = 0
        self._guard = threading.Lock()
        self._two = threading.Barrier(2)
        self._two_async = asyncio.Barrier(2)

    def begin(self) -> None:
        with self._guard:
            self.running += 1
            self.most = max(self.most, self.running)

    def __call__(self, _ctx: object) -> None:
        self.begin()
        self._two.wait(60)
        self.running -= 1

    async def aio(self, _ctx: object) -> None:
        self.begin()
        await self._two_async.wait()
        self.running -= 1


async def both(work: Counted) -> None:
    for step in (Order.pay, Refund.pay):
        await step.arun_all(work.aio)


RUNNERS: dict[str, Callable[[Counted], object]] = {
    "run_all": lambda work: (Order.pay.run_all(work, threads=4), Refund.pay.run_all(work, threads=4)),
    "arun_all": lambda work: asyncio.run(both(work)),
    "Worker": lambda work: Worker({Order.pay: work, Refund.pay: work}, threads=4).run(until_idle=True),
    "AsyncWorker": lambda work: asyncio.run(
        AsyncWorker({Order.pay: work.aio, Refund.pay: work.aio}).run(until_idle=True)
    ),
}


@pytest.mark.parametrize("runner", RUNNERS.values(), ids=RUNNERS)
def test_slots_are_the_most_at_once_and_come_back(runner: Callable[[Counted], object], clock: StoppedClock) -> None:
    Order.create_many(f"o-{number}" for number in range(6))
    Refund.create_many(f"r-{number}" for number in range(4))
    work = Counted()

    with recorded(BankTask) as requests, without_waiting(clock):
        runner(work)

    assert work.most == 2
    assert Order.counts()[Order.ship.pending] + Refund.counts()[Refund.pay.succeeded] == 10
    assert (held(), about_slots(requests) <= 14) == ([], True)


def test_a_slot_is_kept_for_the_next_task_and_no_request_is_sent_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Order.use_case_id, "pausable", False)  # no request for its pauses
    Order.create_many(f"o-{number}" for number in range(30))
    with recorded(BankTask) as requests:
        Order.pay.run_all(lambda _: None)
    assert [about_slots(requests), requests.operations.count("UpdateItem")] == [2, 62]


def test_without_a_limit_nothing_is_imported_or_sent(other: LimitSlots) -> None:
    script = (
        "import sys; from pynamodb_tracker import Step, Task, UseCase, Worker\n"
        "class T(Task):\n    class Meta: table_name = 't'; region = 'us-east-1'\n"
        "class O(T):\n    use_case_id = UseCase('o'); pay = Step(100)\n"
        "Worker({O.pay: print}); assert O.pay._definition.slots() is None\n"
        "sys.exit(any(name.endswith(('control.limit', 'control.slots')) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0  # noqa: S603 - a script of ours
    assert other.take(bank, "")
    assert other.take(bank, "")
    for task_id in ("o-1", "o-2"):
        Order.create(task_id, state=Order.ship.pending)
    with recorded(BankTask) as requests:
        Order.ship.run("o-1", lambda _: None)
        Order.ship.run_all(lambda _: None)
    assert about_slots(requests) == 0


async def adone(_ctx: object) -> None:
    """Do nothing."""


async def aenter(**options: Any) -> None:
    async with Order.pay.astart("o-1", **options):
        pass


def enter(**options: Any) -> None:
    with Order.pay.start("o-1", **options):
        pass


STARTS: dict[str, Callable[..., object]] = {
    "start": enter,
    "run": lambda **options: Order.pay.run("o-1", lambda _: None, **options),
    "astart": lambda **options: asyncio.run(aenter(**options)),
    "arun": lambda **options: asyncio.run(Order.pay.arun("o-1", adone, **options)),
}


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_a_task_that_is_started_by_its_id_takes_a_slot_and_gives_it_back(start: Callable[..., object]) -> None:
    Order.create("o-1")
    with recorded(BankTask) as requests:
        start()
    assert (requests.operations, about_slots(requests), held()) == (["UpdateItem"] * 4, 2, [])
    assert not mine().has_any


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_a_task_does_not_start_without_a_slot_unless_the_limit_is_ignored(
    clock: StoppedClock, other: LimitSlots, start: Callable[..., object]
) -> None:
    assert all(other.take(bank, "") for _ in range(2))
    Order.create("o-1")
    began = clock.now()
    for _ in range(2):
        with pytest.raises(ConcurrencyLimitReachedError, match="'o-1': all 2 slots of the limit bank are taken"):
            start()
    task = Order.get_task("o-1")
    assert (task.state, task.fence, clock.now()) == (Order.pay.pending, 0, began)
    with recorded(BankTask) as requests:
        start(ignore_concurrency_limit=True)
    assert about_slots(requests) == 0
    assert Order.get_task("o-1").state == Order.ship.pending


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_a_refused_claim_gives_its_slot_back(start: Callable[..., object]) -> None:
    with pytest.raises(TaskNotFoundError):
        start()
    assert (held(), mine().has_any) == ([], False)


def test_as_many_tasks_run_at_once_as_there_are_slots_if_they_are_started_by_their_ids() -> None:
    Order.create_many(f"o-{number}" for number in range(8))
    work, refused = Counted(), list[str]()

    def pay(_ctx: object) -> None:
        work.begin()
        poll_until(lambda: len(refused) == 6)

    def run(number: int) -> None:
        try:
            Order.pay.run(f"o-{number}", pay)
        except ConcurrencyLimitReachedError as error:
            refused.append(error.task_id)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (work.most, Order.counts()[Order.ship.pending], held()) == (2, 2, [])


def test_a_handler_gives_its_slot_back_before_it_replies_without_any_thread() -> None:
    handler = handles(Order.pay, task_id="id", create_if_missing=True)(lambda *_: "paid")
    with recorded(BankTask) as requests:
        assert handler({"id": "o-1"}, None) == "paid"
    assert (about_slots(requests), held(), mine().has_any) == (2, [], False)


def test_a_handler_waits_two_seconds_for_a_slot_and_each_trigger_gets_its_reply(
    clock: StoppedClock, other: LimitSlots
) -> None:
    handler = handles(Order.pay, task_id="body.id", create_if_missing=True)(lambda *_: "paid")
    queue = handles(Order.pay, task_id="id", create_if_missing=True)(lambda *_: "paid")
    Order.create("o-1")
    Order.pay.run("o-1", lambda _: "paid", store_result=True)
    taken = [other.take(bank, "") for _ in range(2)]
    began = clock.now()
    found = handler(http_event({"id": "o-2"}), None)
    assert (found["statusCode"], found["headers"]["retry-after"]) == (503, "5")
    assert clock.now() - began == 2 * SECOND
    assert Order.get_task("o-2").fence == 0
    with pytest.raises(ConcurrencyLimitReachedError):
        queue({"id": "o-2"}, None)
    assert len(queue(sqs({"id": "o-2"}), None)["batchItemFailures"]) == 1
    acknowledged = handles(Order.pay, task_id="id", create_if_missing=True, replies=Replies(limited="ack"))(print)
    assert acknowledged(sqs({"id": "o-3"}), None)["batchItemFailures"] == []
    assert Order.get_task("o-3").state == Order.pay.pending
    assert handler(http_event({"id": "o-1"}), None)["body"] == '"paid"', "what is done needs no slot"
    for slot in taken:
        assert slot is not None
        slot.give_back()
    assert handler(http_event({"id": "o-2"}), None)["statusCode"] == 200


@pytest.mark.parametrize("kind", ["batch", "worker"])
def test_slots_of_dead_workers_are_free_after_the_margin(clock: StoppedClock, other: LimitSlots, kind: str) -> None:
    began = clock.now()
    assert all(other.take(bank, "") for _ in range(2))
    Order.create("o-1")
    starts = []

    def work(_ctx: object) -> None:
        starts.append(clock.now())

    run = {
        "batch": lambda: Order.pay.run_all(work),
        "worker": lambda: Worker({Order.pay: work}, max_poll_interval=LIFETIME).run(until_idle=True),
    }[kind]
    thread = threading.Thread(target=run)
    thread.start()
    while not starts:
        clock.advance(SECOND / 4)
        thread.join(0.01)
    thread.join(60)

    free = began + LIFETIME + BankTask.tracker.margin
    assert free < starts[0] <= free + 2 * LOOK_EVERY + SECOND
    assert held() == ["bank#00"] or held() == ["bank#01"]  # the one that nobody needed again


def test_a_waiting_worker_says_so_and_runs_other_steps(other: LimitSlots, capfd: pytest.CaptureFixture[str]) -> None:
    assert all(other.take(bank, "") for _ in range(2))
    Order.create("o-1")
    Order.create("o-2", state=Order.ship.pending)
    settings = WorkerSettings([(Order.pay, print), (Order.ship, print)], 1, False, None, SECOND, 30 * SECOND)  # noqa: FBT003 - as a worker makes it
    team = ThreadTeam(settings, Messages())
    taken: Any = team.dispatcher.take()
    assert (taken.source.work.name, taken.task_id) == ("Order.ship", "o-2")
    team.print_status()
    assert "Order.pay: 0 succeeded" in (said := capfd.readouterr().err)
    assert "; all 2 slots of the limit bank are taken; next look in " in said


def test_waiting_for_a_slot_is_logged_once_with_who_holds_the_slots(
    clock: StoppedClock, other: LimitSlots, caplog: pytest.LogCaptureFixture
) -> None:
    with working_as("elsewhere"):
        assert other.take(bank, "other")
    slot = took(mine())
    Order.create_many(["o-1", "o-2"])
    caplog.set_level(logging.INFO, "pynamodb_tracker")

    def leave() -> None:
        poll_until(lambda: any("waits" in each for each in caplog.messages))
        clock.advance(5 * SECOND)
        slot.leave()

    thread = threading.Thread(target=leave)
    thread.start()
    assert len(Order.pay.run_all(print).succeeded) == 2
    thread.join()
    text = "Order.pay waits for a slot: all 2 slots of the limit bank are taken, held by "
    [said] = [each for each in caplog.messages if "waits" in each]
    assert said in {f"{text}{this_worker()} (1), elsewhere (1)", f"{text}elsewhere (1), {this_worker()} (1)"}
    assert [each.levelno for each in caplog.records if "waits" in each.getMessage()] == [logging.INFO]


def test_a_worker_that_has_handed_a_slot_on_looks_again_after_four_seconds(clock: StoppedClock) -> None:
    one = ConcurrencyLimit("bank", 1)
    work = SimpleNamespace(slots=slots.StepSlots(Order, "pay", one), name="Order.pay", log_fields={})
    source: Any = StepSource(work, SimpleNamespace(window=ClaimWindow(1)))  # type: ignore[arg-type]  # all they need
    source.has_next = lambda _stopped: True
    source._ahead = "o-1", False
    slot = took(mine(), one)
    began = clock.now()
    assert source.next(threading.Event()) is None
    assert source.look_at <= began + 4 * SECOND
    slot.is_wanted = True
    clock.advance(USED_FOR)
    slot.leave()
    mine().give_back(at_once=False)
    began = clock.now()
    assert source.next(threading.Event()) is None
    assert began < source.look_at <= began + 4 * SECOND


def test_a_slot_that_others_want_is_given_back_after_ten_seconds_and_not_taken_again_at_once(
    clock: StoppedClock, other: LimitSlots
) -> None:
    one = ConcurrencyLimit("bank", 1)
    slot = took(mine(), one)
    assert other.take(one, "other") is None
    clock.advance(USED_FOR)
    renew_due([mine()])
    slot.leave()
    assert mine().take(one, "mine") is None
    mine().give_back(at_once=False)
    assert mine().take(one, "mine") is None
    clock.advance(3 * SECOND)  # the other one looks again
    taken = took(other, one)
    clock.advance(2 * LOOK_EVERY)
    renew_due([other])
    assert (taken.is_wanted, mine().take(one, "mine")) == (False, None)


def test_a_slot_that_nobody_wants_is_kept_as_long_as_it_is_used(clock: StoppedClock) -> None:
    tokens = set[str]()
    with recorded(BankTask) as requests:
        for _ in range(40):
            slot = took(mine())
            tokens.add(slot.token)
            clock.advance(SECOND)
            renew_due([mine()])
            slot.leave()
    assert about_slots(requests) == 1 + 4  # renewals
    assert len(tokens) == 1


def test_threads_renew_slots_give_back_idle_ones_and_end(
    clock: StoppedClock, keepers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "_keepers", keepers)
    slot = took(mine())
    until, threads = slot.until, [keeper._thread for keeper in keepers]
    clock.advance(USED_FOR)
    poll_until(lambda: clock.advance(SECOND / 50) or slot.until >= until + USED_FOR)
    slot.leave()
    left = clock.now()
    assert len(held()) == 1
    poll_until(lambda: clock.advance(SECOND / 8) or held() == [])
    assert clock.now() >= left + IDLE_FOR
    poll_until(lambda: clock.advance(SECOND / 8) or not any(thread.is_alive() for thread in threads))
    assert [keeper._thread for keeper in keepers] == [None, None]


def test_lost_returns_stop_no_renewals(clock: StoppedClock, keepers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    three, is_sent, over = ConcurrencyLimit("bank", 3), threading.Event(), threading.Event()
    monkeypatch.setattr(slots, "_keepers", keepers)
    monkeypatch.setattr(SlotTable, "give_back", lambda *_: is_sent.set() or over.wait(60))
    used, *idle = (mine().take(three, "mine") for _ in range(3))
    for slot in idle:
        assert slot is not None
        slot.leave()
    assert used is not None
    clock.advance(IDLE_FOR)
    poll_until(lambda: clock.advance(SECOND / 50) or is_sent.is_set())  # a thread may begin to wait after `advance`
    until = used.until
    clock.advance(USED_FOR)
    poll_until(lambda: clock.advance(SECOND / 50) or used.until > until)
    over.set()
    used.leave()
    poll_until(lambda: clock.advance(SECOND / 8) or not mine().has_any)


def test_renewals_end_in_time_however_many_are_due(clock: StoppedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    seven = ConcurrencyLimit("bank", 7)
    for _ in range(7):
        assert mine().take(seven, "mine")
    clock.advance(USED_FOR)
    threads = dict[threading.Thread, int]()
    all_begun, renew = threading.Barrier(3), SlotTable.renew

    def slow(table: SlotTable, number: int, token: str) -> StoredSlot:
        first = threading.current_thread() not in threads
        threads[threading.current_thread()] = threads.get(threading.current_thread(), 0) + 1
        if first:
            all_begun.wait(60)  # as many at a time as it takes for three in a row
        return renew(table, number, token)

    monkeypatch.setattr(SlotTable, "renew", slow)
    renew_due([mine()])
    assert (len(threads), mine().due_for_renewal()) == (3, [])
    assert slots._IN_A_ROW * limit.WITHIN < LIFETIME / 3


@MOTO
def test_a_request_for_a_slot_without_a_response_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch, socket.create_server(("127.0.0.1", 0)) as silent:
        patch.setattr(time_of_day, "_clock", time_of_day.Clock())

        class SilentTask(Task):
            class Meta:
                table_name = "silent"
                region = "us-east-1"
                host = f"http://127.0.0.1:{silent.getsockname()[1]}"

        table = SlotTable(SilentTask.tracker.connection(), "bank", 2 * SECOND)
        for send in (table.renew, table.give_back):
            began = time.monotonic()
            with pytest.raises(UpdateError):
                send(0, "0" * 24)
            assert time.monotonic() - began < 60  # the SDK by itself would wait for four times that


@pytest.mark.parametrize("why", ["another worker took it", "it expired because it could not be renewed"])
def test_a_block_that_outlives_its_slot_is_logged(
    clock: StoppedClock, other: LimitSlots, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, why: str
) -> None:
    Order.create("o-1")

    def outlive(_ctx: object) -> None:
        clock.advance(LIFETIME + 3 * SECOND)
        if "took" in why:
            for number in range(2):
                other.table.take(number)
        else:
            monkeypatch.setattr(SlotTable, "renew", lambda *_: 1 / 0)
        renew_due([mine()])

    assert Order.pay.run_all(outlive).succeeded == ["o-1"]
    [said] = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
    text = "Order.pay of 'o-1' keeps running but lost its slot of the limit bank, so one task too many may be running: "
    assert said.startswith(f"{text}{why}")


@pytest.mark.parametrize("kind", ["run_all", "arun_all"])
def test_no_block_begins_with_an_expired_slot(clock: StoppedClock, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    Order.create("o-1")
    begun: list[str] = []

    async def awork(ctx: Any) -> None:
        begun.append(ctx.task.task_id)

    check = type(Order.pay)  # the claim takes long
    start, astart = check.start, check.astart

    def slow(step: Any, task_id: str, **options: Any) -> Any:
        clock.advance(LIFETIME)
        return (start if kind == "run_all" else astart)(step, task_id, **options)

    monkeypatch.setattr(check, "start" if kind == "run_all" else "astart", slow)
    run = Order.pay.run_all if kind == "run_all" else lambda _: asyncio.run(Order.pay.arun_all(awork))
    assert run(lambda ctx: begun.append(ctx.task.task_id)) == Report(released=["o-1"])
    task = Order.get_task("o-1")
    assert (begun, task.state, task.attempt, task.release_count) == ([], Order.pay.pending, 0, 1)


def nested(run: Callable[[], object]) -> Callable[[Any], None]:
    """Return a function that runs other tasks, and notes what it sends."""

    def work(_ctx: object) -> None:
        with recorded(BankTask) as requests:
            try:
                run()
            finally:
                assert requests == []

    return work


NESTED: dict[str, Callable[[], object]] = {
    "run": lambda: Refund.pay.run("r-1", print),
    "start": lambda: Refund.pay.start("r-1").__enter__(),
    "arun": lambda: asyncio.run(Refund.pay.arun("r-1", Counted().aio)),
    "run_all": lambda: Refund.pay.run_all(print),
    "arun_all": lambda: asyncio.run(Refund.pay.arun_all(Counted().aio)),
    "Worker": lambda: Worker({Refund.pay: print}).run(until_idle=True),
    "AsyncWorker": lambda: asyncio.run(AsyncWorker({Refund.pay: Counted().aio}).run(until_idle=True)),
    "a worker of another limit": lambda: Worker({Letter.send: print}).run(until_idle=True),
    "a thread in a copy of the context": lambda: side_by_side(lambda _: Refund.pay.run("r-1", print), [1, 2]),
}


@pytest.mark.parametrize("run", NESTED.values(), ids=NESTED)
def test_a_block_that_has_a_slot_starts_no_task_that_needs_one(run: Callable[[], object]) -> None:
    Order.create("o-1")
    Refund.create("r-1")
    Letter.create("l-1")
    assert Order.pay.run_all(nested(run)).failed == ["o-1"]
    error = Order.get_task("o-1").errors[-1]
    assert error.type == "NestedConcurrencyLimitError"
    assert "in a block that has a slot of the limit bank" in error.message
    assert (Refund.get_task("r-1").fence, held()) == (0, [])


def test_a_block_on_an_event_loop_that_has_a_slot_starts_no_task_that_needs_one() -> None:
    async def pay(_ctx: object) -> None:
        with recorded(BankTask) as requests:
            try:
                async with Refund.pay.astart("r-1"):
                    pass
            finally:
                assert requests == []

    Order.create("o-1")
    Refund.create("r-1")
    asyncio.run(Order.pay.arun_all(pay))
    assert Order.get_task("o-1").errors[-1].type == "NestedConcurrencyLimitError"


def test_a_block_without_a_slot_and_one_that_has_ended_start_tasks_that_need_one() -> None:
    Order.create("o-1", state=Order.ship.pending)
    Order.create("o-2")
    Refund.create_many(["r-1", "r-2"])
    assert Order.ship.run_all(lambda _: Refund.pay.run_all(print, limit=1)).succeeded == ["o-1"]
    late = list[Any]()
    assert Order.pay.run_all(lambda _: late.append(copy_context())).succeeded == ["o-2"]
    assert late[0].run(Refund.pay.run_all, print).succeeded == ["r-2"]


def test_the_slot_of_a_task_that_an_event_loop_no_longer_begins_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    Order.create("o-1")
    worker = AsyncWorker({Order.pay: Counted().aio}, grace=timedelta(0))
    monkeypatch.setattr(TaskExecutor, "_begin", lambda *_: worker.stop())  # as if the loop were closed before it
    asyncio.run(worker.run())
    poll_until(lambda: not any("finder" in each.name for each in threading.enumerate()))
    assert Order.get_task("o-1").attempt == 0
    assert {slot.user for slot in mine()._mine.values()} <= {None}, "what is idle, the thread of slots gives back"


def test_slots_above_the_number_are_not_taken_also_if_they_are_idle_here() -> None:
    taken = [mine().take(bank, "mine") for _ in range(2)]
    for slot in taken:
        assert slot is not None
        slot.leave()
    fewer = ConcurrencyLimit("bank", 1)
    assert [slot and slot.number for slot in (mine().take(fewer, ""), mine().take(fewer, ""))] == [0, None]


def test_what_is_taken_is_asked_for_once_and_not_tried_again_before_the_margin_has_passed(
    clock: StoppedClock, other: LimitSlots
) -> None:
    one = ConcurrencyLimit("bank", 1)
    assert other.take(one, "other")
    clock.advance(LIFETIME + BankTask.tracker.margin / 2)
    sent = []
    for process in (mine(), LimitSlots(other.table), mine()):
        with recorded(BankTask) as requests:
            assert process.take(one, "") is None
        sent.append(requests.operations)
        process.look_after(-SECOND)  # it may look again
    assert sent == [["UpdateItem", "BatchGetItem", "UpdateItem"], ["UpdateItem", "BatchGetItem"], ["BatchGetItem"]]


@MOTO
def test_25_slots_are_read_at_a_time() -> None:
    mine()._was_full = True
    with recorded(BankTask) as requests:
        assert mine().take(ConcurrencyLimit("bank", 30), "mine")
    [[asked]] = [request.body["RequestItems"].values() for request in requests if "RequestItems" in request.body]
    assert len(asked["Keys"]) == 25


@MOTO
def test_slots_of_another_connection_are_not_those_of_this_process() -> None:
    before = mine()
    BankTask.tracker.table.reconnect()
    assert mine() is not before


def test_one_holder_is_asked_at_a_time(clock: StoppedClock, other: LimitSlots) -> None:
    assert all(other.take(bank, "other") for _ in range(2))
    for _ in range(3):
        assert mine().take(bank, "") is None
        clock.advance(2 * LOOK_EVERY)
    assert sorted(slot.is_wanted for slot in other.table.read(range(2))) == [False, True]


@pytest.mark.parametrize("holder", ["dies", "gives it back"])
def test_the_next_holder_of_a_wanted_slot_is_not_asked(clock: StoppedClock, other: LimitSlots, holder: str) -> None:
    slot = other.table.take(0)
    mine().table.ask_for(slot)
    if holder == "dies":
        clock.advance(LIFETIME + BankTask.tracker.margin + SECOND)
    else:
        other.table.give_back(0, slot.lock)
    mine().table.take(0)
    assert [slot.is_wanted for slot in mine().table.read([0])] == [False]


def test_a_late_copy_changes_nothing_for_the_next_holder(other: LimitSlots) -> None:
    mine_table = mine().table
    first = mine_table.take(0)
    mine_table.give_back(0, first.lock)
    with pytest.raises(Taken):
        mine_table.renew(0, first.lock)
    second = other.table.take(0)
    mine_table.give_back(0, first.lock)
    mine_table.ask_for(first)
    with pytest.raises(Taken):
        mine_table.renew(0, first.lock)
    assert list(mine_table.read([0])) == [second]


def test_a_clock_that_is_behind_takes_a_slot_that_is_free(other: LimitSlots, monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = other.table.take(0)
    other.table.give_back(0, ahead.lock)
    tokens = iter(["0" * 24])
    monkeypatch.setattr(limit, "new_token", lambda above=None: new_token(above=above) if above else next(tokens))
    assert mine().table.take(0).lock > ahead.lock


@MOTO
def test_an_idle_slot_is_kept_for_a_second_and_not_used_after_it_has_expired(clock: StoppedClock) -> None:
    slot = took(mine())
    slot.leave()
    clock.advance(LIFETIME)
    next_one = took(mine())
    assert (next_one.is_held, slot.is_held) == (True, False)
    next_one.leave()
    left = []
    for pause in (IDLE_FOR * 0.9, IDLE_FOR * 0.1):
        clock.advance(pause)
        mine().give_back(at_once=False)
        left.append(len(held()))
    assert left == [1, 0]


@MOTO
def test_a_clock_put_back_lengthens_no_wait_for_a_slot_nor_its_use(clock: StoppedClock, other: LimitSlots) -> None:
    held = [other.take(bank, "other") for _ in range(2)]
    assert mine().take(bank, "") is None
    assert not mine().may_have(bank)
    assert held[0] is not None
    held[0].is_wanted = True
    assert not held[0].is_due_elsewhere
    clock.advance(timedelta(hours=-1))
    assert (mine().may_have(bank), held[0].is_due_elsewhere) == (True, True)


@MOTO
def test_a_slot_with_a_failed_renewal_is_kept_while_held(clock: StoppedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []

    def fail(*_: object) -> Any:
        sent.append((deadline() or clock.now()) - clock.now())
        raise UpdateError("no answer")

    slot = took(mine())
    clock.advance(USED_FOR)
    monkeypatch.setattr(limit, "send", fail)
    renew_due([mine()])
    slot.leave()
    assert mine().take(bank, "mine") is slot
    assert SECOND <= sent[0] <= USED_FOR / 2  # other slots are renewed after it


@MOTO
def test_a_slot_that_another_program_has_deleted_is_lost_at_once(clock: StoppedClock) -> None:
    slot = took(mine(), ConcurrencyLimit("bank", 1))
    clock.advance(USED_FOR)
    key = {"task_id": {"S": "bank#00"}, "use_case_id": {"S": "#limit"}}
    remove(BankTask, key)
    renew_due([mine()])
    assert not slot.is_held


@MOTO
def test_a_slot_taken_again_during_its_renewal_is_kept(clock: StoppedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    one, taken = ConcurrencyLimit("bank", 1), list[Any]()
    slot = took(mine(), one)

    def renew(*_: object) -> Any:
        slot.leave()
        mine().give_back(at_once=True)
        taken.append(mine().take(one, "mine"))
        raise Taken

    clock.advance(USED_FOR)
    monkeypatch.setattr(SlotTable, "renew", renew)
    renew_due([mine()])
    taken[0].leave()
    assert mine().take(one, "mine") is taken[0]


def test_a_damaged_slot_is_left_alone(other: LimitSlots) -> None:
    damages = {"lock_expire_time": {"S": "soon"}}, {"lock": {"S": "zz"}}, {"lock": {"S": "f" * 24}}
    for number, damage in enumerate(damages):
        put(BankTask, {"task_id": {"S": f"bank#{number:02}"}, "use_case_id": {"S": "#limit"}, **damage})
    with recorded(BankTask) as requests:
        assert other.take(ConcurrencyLimit("bank", 3), "") is None
    assert requests.operations == ["UpdateItem", "BatchGetItem"]
    assert [str(use) for use in slots.uses(Order)] == ["limit bank: 2 of 2 slots are taken"]


@pytest.mark.parametrize(
    ("name", "at_once", "problem"),
    [
        ("", 1, "1 to 255 bytes"),
        ("a#b", 1, "without '#'"),
        ("ä" * 128, 1, "1 to 255 bytes"),
        (7, 1, "the name is text"),
        ("bank", 0, "from 1 to 1,000"),
        ("bank", 1001, "from 1 to 1,000"),
        ("bank", 2.0, "from 1 to 1,000"),
        ("bank", True, "from 1 to 1,000"),
    ],
)
def test_what_is_no_limit_is_refused(name: Any, at_once: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        ConcurrencyLimit(name, at_once)


@MOTO
def test_the_longest_name_and_the_most_slots_are_a_limit() -> None:
    assert ConcurrencyLimit("ä" * 127 + "a", 1_000).slots == 1_000


@pytest.mark.parametrize("given", [20, "bank"])
def test_a_step_shows_how_to_declare_a_limit(given: Any) -> None:
    with pytest.raises(TypeError, match=r"Step\(100, concurrency_limit=.*bank = ConcurrencyLimit\(\"bank\", 20\)"):
        Step(100, concurrency_limit=given)


def test_slots_are_no_tasks(other: LimitSlots) -> None:
    other.take(bank, "")
    Order.create("o-1")
    assert [task.task_id for task in BankTask.scan()] == ["o-1"]
    assert Order.delete_use_case().succeeded == ["o-1"]
    assert len(held()) == 1
    assert StoredSlot(0).is_free(SECOND)


@MOTO
def test_a_frozen_exception_of_a_block_that_has_a_slot_is_recorded() -> None:
    Order.create("o-1")
    Order.pay.run_all(raising(FrozenError("it broke")), limit=1)
    assert Order.get_task("o-1").errors[-1].type == "FrozenError"
