"""A step that was renumbered is refused by what runs work, with the number to give back."""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pynamodb.exceptions import GetError

from pynamodb_tracker import AsyncWorker, DefinitionError, Step, Task, UseCase, Worker
from pynamodb_tracker.aws_lambda import handles, retry_handler
from pynamodb_tracker.control import item
from pynamodb_tracker.dynamodb import connection
from pynamodb_tracker.testing import StoppedClock
from tests.support.declaring import declare
from tests.support.network import Network
from tests.support.recorder import recorded


class ShopTask(Task):
    class Meta:
        table_name = "numbered"
        region = "us-east-1"


TABLES = [ShopTask]
pytestmark = pytest.mark.usefixtures("table", "clock")

README = {"confirm_payment": 100, "ship": 200, "deliver": 300}
RENUMBERED = {"confirm_payment": 100, "fraud": 200, "ship": 300, "deliver": 400}


def program(steps: dict[str, int]) -> Any:
    """Return the use case as a program declares it: in a process of its own, in truth."""
    ShopTask.tracker.table.use_cases.clear()
    body = {name: Step(number) for name, number in steps.items()}
    return declare("Order", ShopTask, use_case_id=UseCase("order", pausable=True), pack=None, **body)


def run(steps: dict[str, int]) -> Any:
    """Run a program once, which records its numbers."""
    order = program(steps)
    order.confirm_payment.run_all(done)
    return order


def done(_ctx: object) -> None: ...


async def adone(_ctx: object) -> None: ...


def handled(_ctx: object, _event: object) -> None: ...


WAYS: dict[str, Callable[[Any], object]] = {
    "run_all": lambda order: order.ship.run_all(done),
    "arun_all": lambda order: asyncio.run(order.ship.arun_all(adone)),
    "Worker": lambda order: Worker({order.ship: done}).run(until_idle=True),
    "AsyncWorker": lambda order: asyncio.run(AsyncWorker({order.ship: adone}).run(until_idle=True)),
    "handles": lambda order: handles(order.ship, task_id="id", trigger="direct")(handled)({"id": "o-1"}, None),
    "retry_handler": lambda order: retry_handler(order.ship, done)({}, None),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_step_inserted_by_renumbering_is_refused_with_the_numbers_to_give_back(
    way: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = run(README)
    before.create("o-1", state=before.deliver.pending)
    order = program(RENUMBERED)
    caplog.set_level(logging.INFO, "pynamodb_tracker")

    with pytest.raises(DefinitionError, match=r"restore ship = Step\(200\), deliver = Step\(300\). Number a new step"):
        WAYS[way](order)
    assert caplog.messages == []
    assert order.get_task("o-1").fence == 0
    assert program(README).deliver.run_all(done).succeeded == ["o-1"]


@pytest.mark.parametrize(
    ("after", "back"),
    [
        ({"confirm_payment": 100, "deliver": 200, "ship": 300}, r"deliver = Step\(300\)"),
        ({"confirm_payment": 100, "fraud": 200, "send": 300, "bring": 400}, r"new numbers \(400\).*ship = Step\(200\)"),
    ],
)
def test_swapped_numbers_and_new_ones_with_other_names_are_refused(after: dict[str, int], back: str) -> None:
    run(README)
    with pytest.raises(DefinitionError, match=back):
        run(after)


@pytest.mark.parametrize(
    "after",
    [
        {"confirm_payment": 100, "fraud": 150, "ship": 200, "deliver": 300},
        {"confirm_payment": 100, "send": 200, "deliver": 300},
        {"confirm_payment": 100},
    ],
    ids=["inserted", "renamed", "fewer"],
)
def test_what_leaves_tasks_where_they_are_is_not_refused_nor_is_the_program_before(
    after: dict[str, int], clock: StoppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "pynamodb_tracker"):
        for _ in range(2):
            for steps in (README, after):  # blue and green
                order = run(steps)
                clock.advance(timedelta(minutes=1))
                order.confirm_payment.run_all(done)
    assert len(caplog.messages) == len({*caplog.messages}) <= 2
    with recorded(ShopTask) as requests:
        run(after)
    assert requests.operations.count("UpdateItem") == 0


def test_a_step_that_was_renamed_once_is_no_renamed_one_beside_new_numbers() -> None:
    renamed = {"confirm_payment": 100, "send": 200, "deliver": 300}
    for steps in (README, renamed, {**renamed, "bill": 400}):
        run(steps)


def test_what_only_reads_is_never_refused() -> None:
    run(README)
    order = program(RENUMBERED)
    order.create("o-1")
    assert order.get_task("o-1").state == order.confirm_payment.pending
    assert [task.task_id for task in order.confirm_payment.due()] == ["o-1"]
    order.confirm_payment.run("o-1", done)


def test_accepting_records_the_numbers_as_they_are_and_refuses_those_before(clock: StoppedClock) -> None:
    before = run({**README, "bill": 900})
    order = program(RENUMBERED)
    for _ in range(3):  # reading the item again does not let it go on
        with pytest.raises(DefinitionError):
            order.ship.run_all(done)
        clock.advance(timedelta(seconds=5))
    item.accept(order)
    order.ship.run_all(done)
    before.ship.run_all(done)  # it compares at its start only
    with pytest.raises(DefinitionError, match=r"restore ship = Step\(300\)"):
        run(README)
    with pytest.raises(DefinitionError, match=r"restore bill = Step\(900\)"):  # which the accepted program lacks
        run({"confirm_payment": 100, "bill": 950})
    run({"confirm_payment": 100, "bill": 900})
    moved = {"confirm_payment": 100, "ship": 300, "deliver": 400, "bill": 950}
    item.accept(program(moved))
    run(moved)  # the number that bill had names no step any more


@pytest.mark.parametrize("way", ["Worker", "AsyncWorker"])
def test_a_worker_ends_once_it_can_compare(way: str, clock: StoppedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    run(README)
    order = program(RENUMBERED)
    send = connection.send

    def fail_once(*_: object, **__: object) -> Any:
        monkeypatch.setattr(item, "send", send)
        clock.advance(timedelta(seconds=5))
        raise GetError("down")

    monkeypatch.setattr(item, "send", fail_once)
    with pytest.raises(DefinitionError, match="restore ship"):
        WAYS[way](order)


def rival_adds(network: Network) -> tuple[Any, Any]:
    """Let another program record its numbers between the read and the write of this one."""
    rival, order = program(README), program(RENUMBERED)

    def rule(operation: str, _request: Any, send: Callable[[], Any]) -> Any:
        if operation == "UpdateItem":
            network.rule = passing
            item.compare(rival, item.read(rival))
        return send()

    passing = network.rule
    network.rule = rule
    return rival, order


def test_of_two_programs_that_begin_at_once_the_second_compares_again(network: Network) -> None:
    _, order = rival_adds(network)
    with pytest.raises(DefinitionError, match="restore ship"):
        order.confirm_payment.run_all(done)


def test_without_that_comparison_both_would_run(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    written = item._has_written
    monkeypatch.setattr(item, "_has_written", lambda *given: written(given[0], None, given[2]) or True)
    _, order = rival_adds(network)
    order.confirm_payment.run_all(done)
