"""A step that a rolling deployment inserts: programs that do not declare it lead their tasks to it."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import (
    AsyncWorker,
    Repeat,
    Signal,
    Step,
    Task,
    TaskAlreadySucceededError,
    TrackerError,
    UseCase,
    Worker,
)
from pynamodb_tracker.aws_lambda import handles, retry_handler
from pynamodb_tracker.control import item, watch
from pynamodb_tracker.testing import StoppedClock
from tests.aws_lambda.shop import Context
from tests.support.network import Network, error
from tests.support.recorder import recorded
from tests.support.rows import stored


class ShopTask(Task):
    class Meta:
        table_name = "required"
        region = "us-east-1"


TABLES = [ShopTask]
FRAUD = 150
SOON = watch.INTERVAL
pytestmark = pytest.mark.usefixtures("table", "clock")


def declared(**body: Any) -> Any:
    """Return the use case as a program declares it, in a process of its own."""
    ShopTask.tracker.table.use_cases.clear()
    make: Any = type(ShopTask)
    return make("Order", (ShopTask,), {"use_case_id": UseCase("order"), "pay": Step(100), **body})


def program(*, fraud: bool = False, pausable: bool | None = None) -> Any:
    """Return the use case of the old or of the new version."""
    also = {"fraud": Step(FRAUD)} if fraud else {}
    use_case, refund = UseCase("order", pausable=pausable), Step(900, branch=True)
    return declared(use_case_id=use_case, ship=Step(200), refund=refund, paid=Signal(), **also)


def done(_ctx: object) -> None: ...


async def adone(_ctx: object) -> None: ...


def state(order: Any, task_id: str = "o-1") -> int:
    return int(order.get_task(task_id).status)


def transactional(ctx: Any) -> None:
    with ctx.transaction(succeed=True):
        pass


WAYS: dict[str, Callable[[Any, StoppedClock], object]] = {
    "run_all": lambda order, _: order.pay.run_all(done),
    "threads": lambda order, _: order.pay.run_all(done, threads=2),
    "arun_all": lambda order, _: asyncio.run(order.pay.arun_all(adone)),
    "Worker": lambda order, _: Worker({order.pay: done}).run(until_idle=True),
    "AsyncWorker": lambda order, _: asyncio.run(AsyncWorker({order.pay: adone}).run(until_idle=True)),
    "retry_handler": lambda order, clock: retry_handler(order.pay, done)({}, Context(clock)),
    "a transaction": lambda order, _: order.pay.run_all(transactional),
}
SINGLE: dict[str, Callable[[Any, StoppedClock], object]] = {
    "run": lambda order, _: order.pay.run("o-1", done),
    "arun": lambda order, _: asyncio.run(order.pay.arun("o-1", adone)),
    "handles": lambda order, clock: handles(order.pay, task_id="id", trigger="direct")(lambda _ctx, _event: None)(
        {"id": "o-1"}, Context(clock)
    ),
}


@pytest.mark.parametrize("way", [*WAYS, *SINGLE])
def test_a_success_leads_to_a_required_step_that_its_program_does_not_declare(way: str, clock: StoppedClock) -> None:
    order = program(pausable=True) if way in SINGLE else program()
    order.create_many(["o-1", "o-2"])
    item.require(order, FRAUD, "ada")
    (WAYS | SINGLE)[way](order, clock)
    assert state(order) == FRAUD


def test_an_urgent_task_comes_first_in_a_required_step() -> None:
    steps = {"use_case_id": UseCase("order", urgent=True), "ship": Step(200)}
    order = declared(**steps)
    item.require(order, FRAUD, "ada")
    order.create_many(["o-1", "o-2"])
    order.create("o-3", urgent=True)
    order.pay.run_all(done)
    order = declared(**steps, fraud=Step(FRAUD))
    assert [state(order, "o-3"), stored(order, "o-3")["status_key"]["S"]] == [FRAUD, f"order#{FRAUD}#u"]
    assert order.fraud.run_all(done, limit=1).succeeded == ["o-3"]


def test_the_last_success_leads_to_a_required_step_instead_of_the_next_occurrence(clock: StoppedClock) -> None:
    order = program()
    item.require(order, 300, "ada")
    order.create("o-1", repeat=Repeat.every(timedelta(hours=1)))
    clock.advance(timedelta(hours=1))
    for step in (order.pay, order.ship):
        step.run_all(done)
    assert state(order) == 300


@pytest.mark.parametrize("way", SINGLE)
@pytest.mark.parametrize("pausable", [None, False])
def test_without_pausable_a_handler_or_a_single_run_passes_over_it_and_reads_nothing(
    way: str, pausable: Any, clock: StoppedClock
) -> None:
    item.require(program(), FRAUD, "ada")
    order = program(pausable=pausable)
    order.create("o-1")
    with recorded(ShopTask) as requests:
        SINGLE[way](order, clock)
    assert (state(order), requests.operations) == (200, ["UpdateItem", "UpdateItem"])


def _wait_for_a_child(order: Any, ctx: Any) -> None:
    ctx.create(order, "child", wait=True)
    ctx.wait_until(timedelta(hours=1))


BLOCKS: dict[str, Callable[[Any, Any], object]] = {
    "nothing": lambda _order, _ctx: None,
    "its result": lambda _order, ctx: ctx.store_result({"paid": 7}),
    "a signal": lambda order, ctx: ctx.wait_for(order.paid, until=timedelta(days=1)),
    "a child": _wait_for_a_child,
    "a transaction": lambda _order, ctx: transactional(ctx),
    "another request": lambda order, _ctx: order.create_or_merge("o-1"),
    "a chosen branch": lambda order, ctx: ctx.go_to(order.refund),
    "the chosen end": lambda _order, ctx: ctx.end_task(),
}
TASKS: dict[str, dict[str, Any]] = {
    "plain": {},
    "in a group": {"group": "g"},
    "repeating": {"repeat": Repeat.every(timedelta(hours=1))},
}
TOKENS = {"creation", "lock", "worker", "round", "request_tokens", "join_token"}


@pytest.mark.parametrize("engine", ["moto"], indirect=True)
@pytest.mark.parametrize(
    ("number", "block", "given"),
    [
        *((FRAUD, block, "plain") for block in BLOCKS),
        *((FRAUD, "nothing", given) for given in TASKS),
        *((300, block, given) for block in BLOCKS if block not in ("a signal", "a child") for given in TASKS),
    ],
)
def test_a_success_leaves_the_row_that_a_program_of_the_new_version_would(
    number: int, block: str, given: str, clock: StoppedClock
) -> None:
    """It skips the same branch steps, waits for the same, keeps its turn, and begins its next round as late."""
    rows = []
    for also in ({}, {"added": Step(number)}):
        order = declared(ship=Step(200), refund=Step(900, branch=True), paid=Signal(), **also)
        item.require(order, number, "ada")
        order.create("o-1", **TASKS[given])
        clock.advance(timedelta(hours=1))
        step = order.pay
        if number > order.ship.number:
            step = order.ship
            order.pay.run("o-1", done)
        step.run_all(lambda ctx: BLOCKS[block](order, ctx))  # noqa: B023 - it is called here
        ignored = TOKENS | ({"skipped_steps"} if "chosen" in block else set())
        rows.append({name: each for name, each in stored(order, "o-1").items() if name not in ignored})
        clock.advance(-timedelta(hours=1))
        order.delete_use_case()
        watch._known.forget()
    assert rows[0] == rows[1]


def test_from_five_seconds_after_the_command_none_passes_it_even_after_a_long_block(clock: StoppedClock) -> None:
    order = program()
    order.create_many(["o-1", "o-2", "o-3"])

    def block(ctx: Any) -> None:
        if ctx.task.task_id == "o-2":
            item.require(order, FRAUD, "ada")
            clock.advance(SOON - timedelta(microseconds=1))
        elif ctx.task.task_id == "o-3":
            clock.advance(timedelta(microseconds=1))

    order.pay.run_all(block)
    assert [state(order, f"o-{number}") for number in (1, 2, 3)] == [200, 200, FRAUD]


def test_a_program_of_the_new_version_runs_it_and_then_every_program_goes_on() -> None:
    old = program()
    item.require(old, FRAUD, "ada")
    old.create("o-1")
    old.pay.run_all(done)
    assert program(fraud=True).fraud.run_all(done).succeeded == ["o-1"]
    assert old.ship.run_all(done).succeeded == ["o-1"]
    assert old.get_task("o-1").state == old.ship.succeeded


def test_a_branch_step_ends_its_task_whatever_is_required(clock: StoppedClock) -> None:
    order = program()
    order.create("o-1", state=order.refund.pending)
    item.require(order, 300, "ada")
    clock.advance(SOON)
    order.refund.run_all(done)
    assert state(order) == 1000


def test_who_delivers_a_message_again_learns_that_the_step_is_done() -> None:
    order = program()
    item.require(order, FRAUD, "ada")
    order.create("o-1")
    order.pay.run_all(lambda ctx: ctx.store_result(7))
    with pytest.raises(TaskAlreadySucceededError):
        order.pay.run("o-1", done)
    assert order.pay.result("o-1") == 7


def test_a_parked_task_a_member_of_a_group_and_a_parent_wake_up_at_the_required_step() -> None:
    order = program()
    item.require(order, FRAUD, "ada")
    order.create("waits")
    order.create("first", group="g")
    order.create("second", group="g")
    order.create("parent")
    order.create("child", state=order.ship.pending)
    order.delete_task("child")

    def block(ctx: Any) -> None:
        if ctx.task.task_id == "waits":
            ctx.wait_for(order.paid)
        if ctx.task.task_id == "parent":
            ctx.create(order, "child", wait=True)

    order.pay.run_all(block)
    assert {task_id: state(order, task_id) for task_id in ("waits", "first", "second", "parent", "child")} == {
        "waits": FRAUD,
        "first": FRAUD,
        "second": 100,
        "parent": FRAUD,
        "child": 100,
    }
    order.pay.run_all(done)  # the child
    assert sorted(program(fraud=True).fraud.run_all(done).succeeded) == ["child", "first"]
    old = program()
    assert sorted(old.ship.run_all(done).succeeded) == ["child", "first"]
    assert old.paid.send("waits", "yes").effect == "resumed"
    assert old.pay.run_all(done).succeeded == ["second"]
    assert sorted(program(fraud=True).fraud.run_all(done).succeeded) == ["parent", "second", "waits"]


def test_without_a_requirement_again_tasks_pass_as_before(clock: StoppedClock) -> None:
    order = program()
    item.require(order, FRAUD, "ada")
    order.create("o-1")
    order.ship.run_all(done)  # reads that it is required
    item.stop_requiring(order, FRAUD, "ben")
    clock.advance(SOON)
    order.pay.run_all(done)
    assert state(order) == 200


def test_the_first_requirement_stays_and_a_late_copy_changes_nothing(clock: StoppedClock) -> None:
    order = program()
    item.require(order, FRAUD, "ada")
    clock.advance(timedelta(hours=1))
    item.require(order, FRAUD, "ben")
    assert item.read(order).required[FRAUD].by == "ada"


def test_a_requirement_without_an_answer_finds_itself(network: Network) -> None:
    order, sent = program(), list[str]()

    def rule(operation: str, _request: object, send: Callable[[], Any]) -> Any:
        answer = send()
        sent.append(operation)
        if len(sent) == 1:
            raise error(operation, "InternalServerError")
        return answer

    network.rule = rule
    item.require(order, FRAUD, "ada")
    assert list(item.read(order).required) == [FRAUD]


def test_a_success_without_an_answer_leads_where_its_first_try_did(network: Network, clock: StoppedClock) -> None:
    order = program()
    order.create("o-1")
    item.require(order, FRAUD, "ada")
    ends = list[object]()

    def rule(operation: str, request: Any, send: Callable[[], Any]) -> Any:
        answer = send()
        if operation == "UpdateItem" and "lock_expire_time" not in str(request) and "#control" not in str(request):
            ends.append(request)
            if len(ends) == 1:
                item.stop_requiring(order, FRAUD, "ben")
                clock.advance(SOON)
                raise error(operation, "InternalServerError")
        return answer

    network.rule = rule
    order.pay.run_all(done)
    assert state(order) == FRAUD


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (0, "0 is not a step number: write one from 1 to 990"),
        (991, "991 is not a step number"),
        (202, r"202 is not a step: Order.ship = Step\(200\) uses that number"),
        (198, r"198 is not a step: Order.ship"),
        (50, r"Step\(50\) is the first step, where new tasks begin"),
        (100, r"Step\(100\) is the first step"),
        (900, r"Step\(900\) is a branch step of Order, or comes after one"),
        (950, r"Step\(950\) is a branch step"),
    ],
)
def test_a_step_that_no_success_could_lead_to_is_refused(number: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        item.require(program(), number, "ada")


def test_a_use_case_that_nobody_controls_requires_nothing() -> None:
    with pytest.raises(TrackerError, match="remove pausable=False"):
        item.require(program(pausable=False), FRAUD, "ada")


def test_a_number_that_this_program_uses_otherwise_leads_nowhere() -> None:
    item.require(program(fraud=True), FRAUD, "ada")
    other = declared(pack=Step(FRAUD + 3))
    other.create("o-1")
    other.pay.run_all(done)
    assert state(other) == FRAUD + 3


def test_a_required_step_that_no_program_has_run_or_that_this_one_does_not_declare_is_named() -> None:
    new = program(fraud=True)
    item.require(new, FRAUD, "ada")
    begin, none = "Step(150) is required by ada, but", "no program that declares it has run yet: tasks wait there"
    assert item.read(new).undeclared(new) == [f"{begin} {none}"]
    new.fraud.run_all(done)
    assert item.read(new).undeclared(new) == []
    old = program()
    assert item.read(old).undeclared(old) == [f"{begin} this program does not declare fraud: tasks wait there"]
