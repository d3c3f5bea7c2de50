"""Every operation that writes, as a short scenario. The test loses or repeats one of its requests."""

import contextlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from pynamodb_tracker import RetryLater, TaskAlreadySucceededError, clock
from pynamodb_tracker.control.limit import LIFETIME, SlotTable
from pynamodb_tracker.model.overflow import GROUP_OF

Arm = Callable[[], None]
"""Called right before the request that should go wrong."""


class Boom(Exception):  # noqa: N818 - users' exceptions have any name
    """The block failed."""


def _create(order: Any, task_id: str, arm: Arm) -> None:
    arm()
    order.create(task_id, amount=1)


def _claim(order: Any, task_id: str, arm: Arm) -> None:
    order.create(task_id)
    arm()
    with order.confirm.start(task_id) as ctx:
        assert (ctx.attempt, ctx.task.fence) == (1, 1)
        ctx.task.note = "confirmed"


def _claim_with_payload(order: Any, task_id: str, arm: Arm) -> None:
    order.create(task_id)
    arm()
    with order.confirm.start(task_id, must_match={"amount": 1}) as ctx:
        assert (ctx.attempt, ctx.task.fence) == (1, 1)


def _succeed(order: Any, task_id: str, arm: Arm) -> None:
    order.create(task_id)
    with order.confirm.start(task_id) as ctx:
        ctx.task.data["receipt"] = 7
        ctx.store_result({"receipt": 7})
        arm()
    assert order.confirm.result(task_id) == {"receipt": 7}


def _end_early(order: Any, task_id: str, arm: Arm) -> None:
    order.create(task_id)
    with order.confirm.start(task_id) as ctx:
        ctx.end_task()
        arm()
    assert refused_as_passed_over(order.ship, task_id)


def refused_as_passed_over(step: Any, task_id: str) -> bool:
    """Return whether a step cannot be started because a run has skipped it."""
    try:
        step.run(task_id, lambda _: None)
    except TaskAlreadySucceededError as error:
        return error.skipped
    return False


def _postpone(order: Any, task_id: str, arm: Arm) -> None:
    order.create(task_id)
    for number in range(2):
        with contextlib.suppress(RetryLater), order.confirm.start(task_id):
            if number:
                arm()
            raise RetryLater(timedelta(0), use_attempt=False)
    task = order.get_task(task_id)
    assert (task.attempt, task.postpone_count, [each.count for each in task.errors]) == (0, 2, [2])


def _fail(order: Any, task_id: str, arm: Arm) -> None:
    order.create(task_id)
    with contextlib.suppress(Boom), order.confirm.start(task_id):
        arm()
        raise Boom


def _release(order: Any, task_id: str, arm: Arm) -> None:
    order.create(task_id)
    with contextlib.suppress(KeyboardInterrupt), order.confirm.start(task_id):
        arm()
        raise KeyboardInterrupt


def _extend(order: Any, task_id: str, arm: Arm) -> None:
    order.create(task_id)
    with order.confirm.start(task_id) as ctx:
        arm()
        ctx.extend_lock(timedelta(hours=1))
        in_an_hour = ctx.task.create_time + timedelta(hours=1)
        assert ctx.lock_expire_time == order.get_task(task_id).lock_expire_time == in_an_hour


def _save(order: Any, task_id: str, arm: Arm) -> None:
    order.create(task_id)
    with contextlib.suppress(Boom), order.confirm.start(task_id) as ctx:
        ctx.task.note = "half way"
        arm()
        ctx.save()
        ctx.task.note = "not saved"
        raise Boom


def _save_parts(order: Any, task_id: str, arm: Arm) -> None:
    order.create(task_id)
    calls: list[int] = []
    with contextlib.suppress(Boom), order.confirm.start(task_id) as ctx:
        arm()
        for name in ("charge", "mail"):
            ctx.checkpoint(name, lambda: calls.append(1))
        raise Boom
    assert (len(calls), sorted(order.get_task(task_id).checkpoints)) == (2, ["10/charge", "10/mail", "round"])


def _save_large(order: Any, task_id: str, arm: Arm) -> None:
    order.create(task_id)
    with contextlib.suppress(Boom), order.confirm.start(task_id) as ctx:
        arm()
        for number in range(3):
            ctx.task.data = {"scan": f"{number} " * 10_000}
            ctx.save()
        assert order.get_task(task_id).data == ctx.task.data
        raise Boom


def _fail_at_length(order: Any, task_id: str, arm: Arm) -> None:
    order.create(task_id)
    with contextlib.suppress(Boom), order.confirm.start(task_id):
        arm()
        raise Boom("b" * 1900)
    assert len(order.get_task(task_id).errors[0].message) == 1900


def _create_large(order: Any, task_id: str, arm: Arm) -> None:
    arm()
    assert order.create(task_id, data={"scan": "x" * 20_000}).data == order.get_task(task_id).data


def _commit_success(order: Any, task_id: str, arm: Arm) -> None:
    _in_transaction(order, task_id, arm, succeed=True)


def _in_transaction(order: Any, task_id: str, arm: Arm, *, succeed: bool) -> None:
    ledger = order.create(f"{task_id} ledger", amount=0)
    order.create(task_id)
    with order.confirm.start(task_id) as ctx:
        ctx.task.note = "half way"
        ctx.save()
        ctx.task.note = "done"
        ctx.store_result("done")
        arm()
        with ctx.transaction(succeed=succeed) as transaction:
            transaction.update(ledger, [order.amount.add(1)])


def _reopen(order: Any, task_id: str, arm: Arm) -> None:
    _fail(order, task_id, lambda: None)
    arm()
    assert order.confirm.reopen(task_id).attempt == 0


def _ignore(order: Any, task_id: str, arm: Arm) -> None:
    order.create(task_id)
    arm()
    assert order.confirm.ignore(task_id, reason="cancelled").state == order.confirm.ignored


def _delete(order: Any, task_id: str, arm: Arm) -> None:
    order.create(task_id)
    arm()
    order.delete_task(task_id)


def _wait(order: Any, task_id: str, arm: Arm) -> None:
    order.create(task_id)
    with order.confirm.start(task_id) as ctx:
        ctx.wait_for(order.paid)
        arm()
    assert order.get_task(task_id).awaited_signals == {"paid"}


def _create_waiting(order: Any, task_id: str, arm: Arm) -> None:
    arm()
    assert order.create(task_id, wait_for=order.paid, until=timedelta(days=1)).awaited_signals == {"paid"}


def _answer(order: Any, task_id: str, arm: Arm) -> None:
    order.create(task_id, wait_for=order.paid)
    arm()
    assert order.paid.send(task_id, 1).effect == "resumed"


def slots_of(order: Any, name: str) -> SlotTable:
    return SlotTable(order.tracker.connection(), f"{order.tracker.use_case.name} {name}", order.tracker.margin)


def _take(order: Any, name: str, arm: Arm) -> None:
    arm()
    assert slots_of(order, name).take(0).until == clock.now() + LIFETIME


def _renew(order: Any, name: str, arm: Arm) -> None:
    taken = slots_of(order, name).take(0)
    clock.sleep(1)
    arm()
    assert slots_of(order, name).renew(0, taken.lock).until == clock.now() + LIFETIME
    clock.sleep(-1)  # for the next scenario


def _give_back(order: Any, name: str, arm: Arm) -> None:
    taken = slots_of(order, name).take(0)
    arm()
    slots_of(order, name).give_back(0, taken.lock)


def _ask_for(order: Any, name: str, arm: Arm) -> None:
    taken = slots_of(order, name).take(0)
    arm()
    slots_of(order, name).ask_for(taken)


OPERATIONS: dict[str, tuple[str, Callable[[Any, str, Arm], None]]] = {
    "create": ("PutItem", _create),
    "claim": ("UpdateItem", _claim),
    "claim with payload": ("UpdateItem", _claim_with_payload),
    "succeed": ("UpdateItem", _succeed),
    "end early": ("UpdateItem", _end_early),
    "fail": ("UpdateItem", _fail),
    "postpone": ("UpdateItem", _postpone),
    "release": ("UpdateItem", _release),
    "extend": ("UpdateItem", _extend),
    "save": ("UpdateItem", _save),
    "save parts": ("UpdateItem", _save_parts),
    "put piece": ("PutItem", _save_large),
    "save large": ("UpdateItem", _save_large),
    "put errors": ("PutItem", _fail_at_length),
    "fail at length": ("UpdateItem", _fail_at_length),
    "create large": ("TransactWriteItems", _create_large),
    "commit": ("TransactWriteItems", lambda order, task_id, arm: _in_transaction(order, task_id, arm, succeed=False)),
    "commit success": ("TransactWriteItems", _commit_success),
    "reopen": ("UpdateItem", _reopen),
    "ignore": ("UpdateItem", _ignore),
    "delete": ("DeleteItem", _delete),
    "wait for an answer": ("UpdateItem", _wait),
    "create to wait": ("PutItem", _create_waiting),
    "answer": ("UpdateItem", _answer),
    "take a slot": ("UpdateItem", _take),
    "renew a slot": ("UpdateItem", _renew),
    "give a slot back": ("UpdateItem", _give_back),
    "ask for a slot": ("UpdateItem", _ask_for),
}
"""By name: the DynamoDB operation that goes wrong, and the scenario."""


def row(order: Any, task_id: str) -> dict[str, Any] | None:
    """Return the row's contents, apart from differences between two tasks, or None if it is gone.

    The row is the task's, or the first slot of the limit with that name.
    """
    get, differs = order.tracker.connection().get_item, {"task_id", "lock", "creation", "checkpoints", GROUP_OF}
    keys = ((task_id, order.tracker.use_case.name), (f"{slots_of(order, task_id).name}#00", "#limit"))
    item = next(filter(None, (get(*key, consistent_read=True).get("Item") for key in keys)), None)
    for each in (item or {}).get("signals", {}).get("M", {}).values():
        del each["M"]["token"]
    return item and {name: value for name, value in item.items() if name not in differs}
