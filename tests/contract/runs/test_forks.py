"""A fork inside a block: the task belongs to the process that claimed it; a child records and writes nothing."""

import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pynamodb.transactions import TransactWrite

from pynamodb_tracker import ExecutionContext, LockLostError
from tests.support.network import Network
from tests.support.shop import Order

pytestmark = [
    pytest.mark.usefixtures("table", "task"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),  # of threads: the child starts none
]

STEP = Order.confirm_payment
Act = Callable[[ExecutionContext[Order]], object]


def forked(network: Network, act: Act, *, error: type[BaseException] | None = None) -> dict[str, Any]:
    """Fork inside of a block and act in the child; return what it tells once the parent has ended the block."""
    answer, told = os.pipe()
    parent, facts = os.getpid(), dict[str, Any]()
    try:
        with STEP.start("o-1") as ctx:
            if child := os.fork():
                os.waitpid(child, 0)
                assert Order.get_task("o-1").state == STEP.in_progress
                ctx.task.amount = 1
                if error is not None:
                    raise error  # noqa: TRY301 - in the block, which is what is tested
            else:
                # On moto, what a child sends would not be seen: it has a copy of the tables.
                network.rule = lambda operation, *_: facts.setdefault("sent", operation)
                facts["did"] = act(ctx)
    except BaseException as left:
        if os.getpid() == parent:
            raise
        facts["left"] = type(left).__name__
    finally:
        if os.getpid() != parent:
            os.write(told, json.dumps(facts).encode())
            os._exit(0)
    os.close(told)
    with os.fdopen(answer) as lines:
        return dict(json.load(lines))


def refusal(write: Callable[[], object]) -> str:
    try:
        write()
    except LockLostError as error:
        return str(error)
    return "it was written"


def spoil(ctx: ExecutionContext[Order]) -> dict[str, str]:
    ctx.task.amount = 2
    prepared = ctx._claim.statements.table.connection
    return {
        "save": refusal(ctx.save),
        "extend_lock": refusal(ctx.extend_lock),
        "create": refusal(lambda: ctx.create(Order, "o-2")),
        "transaction": refusal(ctx.transaction),
        "check_in": refusal(lambda: ctx.check_in(TransactWrite(connection=prepared))),
        "lock_lost": str(ctx.lock_lost),
    }


@pytest.mark.parametrize(
    ("leave", "left"),
    [(lambda _: sys.exit(0), "SystemExit"), (lambda _: 1 / 0, "ZeroDivisionError"), (lambda _: None, None)],
    ids=["sys.exit", "an error", "nothing"],
)
def test_a_child_that_leaves_the_block_records_nothing(network: Network, leave: Act, left: str | None) -> None:
    assert forked(network, leave) == ({"did": None} if left is None else {"left": left})
    task = Order.get_task("o-1")
    assert (task.state, task.amount, task.errors) == (Order.ship.pending, 1, [])


def test_the_failure_of_the_parent_is_recorded_after_a_child_has_left_the_block(network: Network) -> None:
    with pytest.raises(LookupError):
        forked(network, lambda _: None, error=LookupError)
    assert Order.get_task("o-1").errors[-1].type == "LookupError"


def test_a_child_cannot_write_for_the_run_of_its_parent(network: Network) -> None:
    did = forked(network, spoil)["did"]
    assert (did.pop("lock_lost"), len(did)) == ("True", 5)
    for message in did.values():
        assert f"process {os.getpid()} claimed" in message
    assert Order.get_task("o-1").amount == 1


def test_a_transaction_of_the_parent_cannot_be_committed_in_a_child() -> None:
    answer, told = os.pipe()
    with STEP.start("o-1") as ctx, ctx.transaction(succeed=True) as transaction:
        if os.fork() == 0:
            os.write(told, refusal(lambda: transaction.__exit__(None, None, None)).encode())
            os._exit(0)
        os.close(told)
        with os.fdopen(answer) as lines:
            assert "forked inside its block" in lines.read()
    assert Order.get_task("o-1").state == Order.ship.pending


def test_a_process_that_was_forked_before_the_claim_runs_tasks_with_a_client_of_its_own() -> None:
    connection: Any = Order.tracker.connection().connection
    client, session, (answer, told) = connection.client, connection.session, os.pipe()
    begun, ended = threading.Event(), threading.Event()

    def build() -> None:
        with connection.building:
            begun.set()
            ended.wait()

    builder = threading.Thread(target=build)
    builder.start()
    begun.wait()
    if os.fork() == 0:
        own = connection.client is not client and connection.session is not session
        os.write(told, f"{own} {STEP.run('o-1', lambda ctx: ctx.attempt)}".encode())
        os._exit(0)
    ended.set()
    builder.join()
    os.close(told)
    with os.fdopen(answer) as lines:
        assert lines.read() == "True 1"
    assert connection.client is client
