"""The methods that begin with `a`: they do what those without it do, in threads."""

# ruff: noqa: PT012 - the block that raises is what is tested, whatever it has in it

import asyncio
import inspect
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pynamodb_tracker import BoundStep, Group, LockLostError, State, Task, TaskAlreadyExistsError
from pynamodb_tracker.aio import lazy
from pynamodb_tracker.model.worker_name import this_worker
from tests.aio.slow_requests import held
from tests.support.recorder import recorded
from tests.support.shop import AppTask, Order
from tests.support.through import Dispatch, through

pytestmark = pytest.mark.usefixtures("table")

PAIRS = [
    pytest.param(kind, name, id=f"{kind.__name__}.{name}")
    for kind in (BoundStep, State, Task, Group)
    for name in sorted(vars(kind))
    if name.startswith("a")
    and inspect.isroutine(getattr(kind, name[1:], None))
    and name not in {"arun", "arun_all", "astart"}  # which pass their options on
]


@pytest.mark.parametrize(("kind", "name"), PAIRS)
def test_it_takes_what_its_namesake_takes(kind: type, name: str) -> None:
    given, taken = (
        {each: parameter.default for each, parameter in inspect.signature(member).parameters.items()}
        for member in (getattr(kind, name), getattr(kind, name[1:]))
    )
    assert given == taken


def test_they_do_what_their_namesakes_do_and_send_nothing_from_the_loop() -> None:
    threads = set[int]()

    def note(send: Dispatch, name: str, body: dict[str, Any]) -> dict[str, Any]:
        threads.add(threading.get_ident())
        return send(name, body)

    async def main() -> None:
        step = Order.confirm_payment
        order = await Order.acreate("o-1", amount=3, group="g")
        assert (order.amount, (await Order.aget_task("o-1")).amount) == (3, 3)
        with pytest.raises(TaskAlreadyExistsError):
            await Order.acreate("o-1")
        assert (await Order.acreate_or_merge("o-2")).effect == "created"
        assert (await Order.acreate_many(["o-3", "o-4"], threads=2)).succeeded
        assert [task.task_id for task in await Order.aget_many(["o-1", "o-9"])] == ["o-1"]
        assert (await Order.acounts())[step.pending] == await step.pending.acount() == 4
        assert (
            len((await step.pending.apage(limit=3)).tasks) == len((await step.pending.aindex_page(limit=3)).tasks) == 3
        )
        assert {task.task_id async for task in step.pending.aquery()} == {"o-1", "o-2", "o-3", "o-4"}
        assert {task.task_id async for task in step.adue()} == {task_id async for task_id in step.adue_ids()}
        assert set(await step.anext_due()) == {step.pending}
        assert (await step.aignore("o-2", reason="wrong")).state == step.ignored
        assert (await step.areopen("o-2")).state == step.pending
        assert (await step.aignore_many(["o-2", "o-3"], reason="wrong")).ignored
        assert (await step.areopen_many(["o-2", "o-3"])).succeeded
        with pytest.raises(LockLostError):
            async with step.astart("o-4"):
                unlocked = await step.aunlock("o-4", reason="its host is gone", worker=this_worker())
        assert unlocked.state == step.pending
        await step.arun("o-3", answer, store_result=True)
        assert await step.aresult("o-3") == {"a": 1}
        group = Order.group("g")
        assert (await group.aturn(), await group.adata(), await group.awaiting(), await group.arepair()) == (
            *("o-1", {}, []),
            "o-1",
        )
        await Order.adelete_task("o-2")
        assert (await Order.adelete_use_case(threads=2)).succeeded

    with through(AppTask, note):
        asyncio.run(main())
    assert threading.get_ident() not in threads


async def answer(_ctx: object) -> dict[str, int]:
    return {"a": 1}


def rows(number: int) -> Iterator[int]:
    yield from range(number)
    raise OSError("no network")


def test_what_was_read_before_an_error_is_returned_before_it_is_raised() -> None:
    async def main() -> None:
        seen = list[int]()
        ahead = lazy._ReadAhead(rows(130))
        with pytest.raises(OSError, match="no network"):
            async for row in ahead:
                seen.append(row)
        assert seen == list(range(130))
        with pytest.raises(StopAsyncIteration):
            await anext(ahead)

    asyncio.run(main())


def test_an_iteration_that_is_left_early_has_read_a_hundred_rows_and_leaves_nothing_behind() -> None:
    read, closed = list[int](), list[bool]()

    def endless() -> Iterator[int]:
        try:
            for number in range(1_000_000):
                read.append(number)
                yield number
        finally:
            closed.append(True)

    async def main() -> None:
        async for _ in lazy._ReadAhead(endless()):
            break
        while not closed:  # the thread that read it may still hold it for a moment
            await asyncio.sleep(0.001)
        assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    asyncio.run(main())
    assert len(read) == 100


def test_few_tasks_with_large_data_are_read_ahead() -> None:
    for number in range(4):
        Order.create(f"o-{number}", data={"scan": "x" * 2_500_000})

    async def main() -> None:
        found = Order.confirm_payment.pending.aquery()
        await anext(found)
        with recorded(AppTask) as requests:
            await anext(found)
            assert requests == []
            await anext(found)
            assert requests != []

    asyncio.run(main())


def test_a_cancel_of_a_bulk_operation_stops_it_at_the_next_task() -> None:
    taken = list[str]()

    def ids() -> Iterator[str]:
        for number in range(50):
            taken.append(f"o-{number}")
            yield taken[-1]

    async def main() -> None:
        with held(3, "PutItem") as create:
            task = asyncio.create_task(Order.acreate_many(ids()))
            await create.sent()
            task.cancel()
            await asyncio.sleep(0)  # lets the cancellation arrive
            create.answer()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    assert len(taken) == 4
    assert [task.task_id for task in Order.get_many(taken)] == taken[:3]
