"""What a worker takes, and what it refuses before any request."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

import pynamodb_tracker
from pynamodb_tracker import AsyncWorker, Tally, Worker
from pynamodb_tracker.testing import LocalTable
from pynamodb_tracker.worker.process_team import ProcessTeam
from pynamodb_tracker.worker.shutdown import Messages
from tests.worker.shop import Order, Parcel, ShopTask


def nothing(_ctx: Any) -> None:
    pass


async def anothing(_ctx: Any) -> None:
    pass


async def later(_ctx: Any) -> AsyncIterator[int]:
    yield 1


FUNCTIONS: Any = {Order.confirm: nothing}


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ({}, "a function for each step"),
        ([], "no use case is given"),
        (["Parcel"], "'Parcel' is not a use case"),
        ([ShopTask], "is not a use case"),
        ([Order], r"no step of Order has a function: bind one with @Order\.confirm\.does"),
        ([Order.ship], r"no function is bound to Order\.ship"),
        (Order.confirm, "a function for each step"),
        ({Order.confirm.pending: nothing}, "is not a step: write"),
        ({"confirm": nothing}, "is not a step: write"),
        ({Order.confirm: "print"}, "takes a function"),
        ({Order.confirm: later}, "not the async"),
    ],
)
def test_what_is_no_function_of_a_step_is_refused(functions: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Worker(functions)


def test_another_function_than_the_bound_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Order.confirm, "function", nothing)
    with pytest.raises(ValueError, match=r"Order.confirm does .*\.nothing, not .*<lambda>"):
        Worker({Order.confirm: lambda _: None})


@pytest.mark.usefixtures("shop")
def test_a_worker_of_use_cases_runs_every_step_that_has_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (Order.ship, Parcel.sort):
        monkeypatch.setattr(step, "function", nothing)
    Order.create_many(["o-1", {"task_id": "o-2", "state": Order.ship.pending}])
    Parcel.create("p-1")
    tallies = Worker([Parcel, Order]).run(until_idle=True)
    assert list(tallies.items()) == [(Parcel.sort, Tally(succeeded=1)), (Order.ship, Tally(succeeded=1))]
    assert Order.get_task("o-1").state == Order.confirm.pending


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("kind", [Worker, AsyncWorker])
def test_a_worker_of_use_cases_names_the_steps_to_which_nobody_bound_a_function(
    kind: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Order.ship, "function", nothing if kind is Worker else anothing)
    for functions in ([Order], [Order.ship]):
        ended = kind(functions).run(until_idle=True)
        if kind is AsyncWorker:
            asyncio.run(ended)
    assert caplog.messages == ["no function is bound to Order.confirm: this worker does not run those tasks"]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"threads": 0}, ValueError),
        ({"processes": 0}, ValueError),
        ({"processes": True}, ValueError),
        ({"heartbeat": 1}, TypeError),
        ({"rate": 0}, ValueError),
        ({"grace": 30}, TypeError),
        ({"grace": timedelta(seconds=-1)}, ValueError),
        ({"max_poll_interval": timedelta(0)}, ValueError),
        ({"max_poll_interval": 1}, TypeError),
    ],
)
def test_wrong_options_are_refused(options: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        Worker(FUNCTIONS, **options)


def test_processes_share_the_lowest_rate() -> None:
    team = ProcessTeam(Worker(FUNCTIONS, rate=0.001)._settings, 4, Messages())
    assert [each._settings.rate for each in team._supervisors] == [0.00025] * 4


@pytest.mark.usefixtures("shop")
def test_in_another_thread_it_works_without_signals() -> None:
    Order.create("o-1")
    handlers: list[Any] = []
    worker = Worker({Order.confirm: lambda _: handlers.append(signal.getsignal(signal.SIGINT))})
    before = signal.getsignal(signal.SIGINT)
    run = threading.Thread(target=worker.run, kwargs={"until_idle": True})
    run.start()
    run.join(30)
    assert handlers == [before]


def test_worker_is_imported_from_the_package() -> None:
    assert pynamodb_tracker.Worker is Worker
    assert not hasattr(pynamodb_tracker, "Wroker")


def test_tallies_add_up_and_print_their_numbers() -> None:
    total = Tally(succeeded=1, refused=2) + Tally(succeeded=1, failed=3, ignored=4, released=5)
    assert str(total) == "2 succeeded, 3 failed, 4 ignored, 2 refused, 5 released"


@pytest.mark.skipif(os.name == "nt", reason="it has the signal")
@pytest.mark.usefixtures("shop")
def test_a_system_without_one_of_the_signals_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(signal, "SIGUSR1")
    Order.create("o-1")
    assert Worker(FUNCTIONS).run(until_idle=True) == {Order.confirm: Tally(succeeded=1)}


def test_processes_that_would_not_see_tables_in_memory_are_not_started(local_table: LocalTable) -> None:
    local_table(ShopTask)
    worker = Worker({Order.ship: nothing}, processes=2)
    with pytest.raises(RuntimeError, match="2 processes cannot share local_table's tables: use local_server"):
        worker.run(until_idle=True)
