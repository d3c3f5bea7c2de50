"""The first access to data parses it. Meanwhile the garbage collector, other threads or a fork may interfere."""

import gc
import json
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pynamodb_tracker.model import data
from tests.support.shop import Order

pytestmark = pytest.mark.usefixtures("table")

PATIENCE = 30.0
"""Seconds after which a thread that does nothing fails the test."""


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Return a function that lets something happen, once, while a dictionary is parsed."""

    class Json:
        acts: list[Callable[[], object]]

        def __getattr__(self, name: str) -> Any:
            return getattr(json, name)

        def loads(self, text: str) -> Any:
            if self.acts:
                self.acts.pop()()
            return json.loads(text)

    stub = Json()
    monkeypatch.setattr(data, "json", stub)

    def arm(act: Callable[[], object]) -> None:
        stub.acts = [act]

    stub.acts = []
    return arm


def rows(*task_ids: str) -> list[Order]:
    for task_id in task_ids:
        Order.create(task_id, data={"of": task_id})
    return [Order.get_task(task_id) for task_id in task_ids]


def in_time(act: Callable[[], object]) -> bool:
    """Do it in a thread, and tell whether that ended."""
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return not thread.is_alive()


def test_the_garbage_collector_may_end_a_block_that_looks_at_data_of_its_own(
    meanwhile: Callable[[Callable[[], object]], None],
) -> None:
    def work() -> Iterator[None]:
        with Order.confirm_payment.start("dropped") as ctx:
            try:
                yield
            finally:
                ctx.task.data["stopped"] = True
                ctx.save()

    row, _ = rows("o-1", "dropped")
    dropped = work()
    next(dropped)
    cycle: list[object] = [dropped]
    cycle.append(cycle)
    del dropped, cycle
    meanwhile(gc.collect)
    assert in_time(lambda: row.data)
    assert (row.data, Order.get_task("dropped").data) == ({"of": "o-1"}, {"of": "dropped", "stopped": True})


def test_two_threads_get_the_same_dictionary(meanwhile: Callable[[Callable[[], object]], None]) -> None:
    (row,) = rows("o-1")
    found: list[Any] = []

    def second() -> None:
        assert in_time(lambda: found.append(row.data))

    meanwhile(second)
    found.append(row.data)
    first, later = found
    assert first is later is row.data


def test_two_threads_get_the_same_dictionary_of_a_task_without_data() -> None:
    class Values(dict[str, Any]):
        def get(self, name: str, default: Any = None) -> Any:
            found = super().get(name, default)
            if name == "data" and not others:
                others.append(None)
                others[0] = row.data
            return found

    row, others = Order.create("o-1"), list[Any]()
    vars(row)["attribute_values"] = Values(row.attribute_values)
    assert row.data is others[0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_process_that_is_forked_while_a_thread_looks_at_data_can_look_at_data(
    meanwhile: Callable[[Callable[[], object]], None],
) -> None:
    row, other = rows("o-1", "o-2")
    inside, go_on = threading.Event(), threading.Event()

    def stay() -> None:
        inside.set()
        go_on.wait(PATIENCE)

    meanwhile(stay)
    thread = threading.Thread(target=lambda: row.data)
    thread.start()
    try:
        assert inside.wait(PATIENCE)
        assert _forked(lambda: other.data == {"of": "o-2"}) == 0
    finally:
        go_on.set()
        thread.join(PATIENCE)
    assert row.data == {"of": "o-1"}


def _forked(check: Callable[[], bool]) -> int:
    """Return the status of a child that checks something: 0 where it holds, a signal's where the child hangs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork while threads run is what is tested
        child = os.fork()
    if child == 0:
        signal.alarm(int(PATIENCE))
        os._exit(0 if check() else 1)
    return os.waitpid(child, 0)[1]


class Restless(dict[str, Any]):
    """A dictionary that another thread changes each time it is iterated over."""

    breaks = False

    def items(self) -> Any:
        found = list(super().items())
        self["count"] = self.get("count", 0) + 1
        if self.breaks and self["count"] % 3:
            raise RuntimeError("dictionary changed size during iteration")
        return found


@pytest.mark.parametrize("breaks", [False, True], ids=["other values", "other keys"])
def test_data_that_another_thread_changes_is_saved_as_it_is_at_a_moment(
    monkeypatch: pytest.MonkeyPatch, breaks: Any
) -> None:
    monkeypatch.setattr(Restless, "breaks", breaks)
    Order.create("o-1")
    with Order.confirm_payment.start("o-1") as ctx:
        ctx.task.data["work"] = Restless(page=7)
        ctx.save()
        assert Order.get_task("o-1").data["work"]["page"] == 7
    task = Order.get_task("o-1")
    assert (task.state, task.data["work"]["page"]) == (Order.ship.pending, 7)
