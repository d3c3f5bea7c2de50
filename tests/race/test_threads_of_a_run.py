"""Threads of one block: a save or a transaction that is being sent is finished before the block ends."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

import pytest

from pynamodb_tracker import LockLostError
from tests.support.operations import Boom

PATIENCE = 30.0
"""Seconds after which a thread that does nothing fails the test."""


class Turns:
    """The lock of a run's writes, which tells when a second thread waits for its turn."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.wanted = threading.Event()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.wanted.set()
            self._lock.acquire()

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._lock.release()


class Helper:
    """A thread of the block that waits before a request until the end of the block waits for it, or has ended."""

    def __init__(self, order: Any, ctx: Any, patch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
        turns = ctx._journal.writing = Turns()
        self.go_on = turns.wanted
        self.errors: list[BaseException] = []
        self._act = act
        self._connection = order.tracker.connection().connection
        self._send = self._connection.dispatch
        self._inside = threading.Event()
        self._thread = threading.Thread(target=self._run)
        patch.setattr(self._connection, "dispatch", self._dispatch)

    def stop_before(self, operation: str) -> None:
        """Begin, and return once it is about to send such a request."""
        self._operation = operation
        self._thread.start()
        assert self._inside.wait(PATIENCE)

    def finish(self) -> list[BaseException]:
        """Return what it raised, once it has ended."""
        self.go_on.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        return self.errors

    def _run(self) -> None:
        try:
            self._act()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.errors.append(error)

    def _dispatch(self, operation: str, request: Any) -> Any:
        if threading.current_thread() is self._thread and operation == self._operation:
            self._inside.set()
            assert self.go_on.wait(PATIENCE)
        return self._send(operation, request)


def scan(text: str) -> dict[str, str]:
    return {"scan": text * 10_000}


def keep(ctx: Any, data: dict[str, str]) -> None:
    ctx.task.data = data
    ctx.save()


@pytest.mark.parametrize("operation", ["PutItem", "UpdateItem"])
@pytest.mark.parametrize("committed", [False, True], ids=["success", "transaction"])
def test_a_save_that_is_being_sent_is_applied_before_the_success(
    order: Any, rival: Any, monkeypatch: pytest.MonkeyPatch, operation: str, *, committed: bool
) -> None:
    order.create("o", data=scan("created"))
    with order.confirm.start("o") as ctx:
        helper = Helper(order, ctx, monkeypatch, lambda: keep(ctx, scan("progress")))
        helper.stop_before(operation)
        ctx.task.data = scan("result")
        if committed:
            with ctx.transaction(succeed=True):
                pass
    assert helper.finish() == []
    task = rival.get_task("o")
    assert (task.state, task.data, ctx.task.data) == (rival.ship.pending, scan("result"), scan("result"))


@pytest.mark.parametrize("operation", ["PutItem", "UpdateItem"])
@pytest.mark.parametrize("error", [Boom, KeyboardInterrupt])
def test_a_save_that_is_under_way_is_saved_though_the_block_fails(
    order: Any, rival: Any, monkeypatch: pytest.MonkeyPatch, operation: str, error: type[BaseException]
) -> None:
    order.create("o", data=scan("created"))
    with pytest.raises(error), order.confirm.start("o") as ctx:  # noqa: PT012 - the block that raises is tested
        helper = Helper(order, ctx, monkeypatch, lambda: keep(ctx, scan("progress")))
        helper.stop_before(operation)
        raise error
    assert helper.finish() == []
    task = rival.get_task("o")
    assert (task.state.step, task.data) == ("confirm", scan("progress"))
    assert task.state != rival.confirm.in_progress


def test_nothing_is_chosen_while_a_transaction_records_the_success(
    order: Any, rival: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    order.create("o")

    def commit(ctx: Any) -> None:
        with ctx.transaction(succeed=True):
            pass

    with order.confirm.start("o") as ctx:
        helper = Helper(order, ctx, monkeypatch, lambda: commit(ctx))
        helper.stop_before("TransactWriteItems")
        with pytest.raises(LockLostError, match="a transaction has recorded its success"):
            ctx.end_task()
    assert (helper.finish(), rival.get_task("o").state) == ([], rival.ship.pending)


@pytest.mark.parametrize("error", [None, Boom()], ids=["ends", "raises"])
def test_a_success_that_is_under_way_in_a_transaction_is_the_end_of_the_block(
    order: Any, rival: Any, monkeypatch: pytest.MonkeyPatch, error: Boom | None
) -> None:
    order.create("o")
    ledger = order.create("ledger", amount=0)

    def commit(ctx: Any) -> None:
        with ctx.transaction(succeed=True) as transaction:
            transaction.update(ledger, [order.amount.add(1)])

    run = order.confirm.start("o")
    ctx = run.__enter__()
    helper = Helper(order, ctx, monkeypatch, lambda: commit(ctx))
    helper.stop_before("TransactWriteItems")
    assert not run.__exit__(error and type(error), error, None)
    assert helper.finish() == []
    assert (rival.get_task("o").state, rival.get_task("ledger").amount) == (rival.ship.pending, 1)
    assert ctx.task.state.code == rival.ship.pending.code
    notes = getattr(error, "__notes__", [])
    assert ["had recorded the success" in note for note in notes] == ([True] if error else [])
