"""The traces of tasks that are created claimed, with their first event: each returns whether a promise was broken."""

import contextlib
from typing import Any

from pynamodb.exceptions import PutError

from pynamodb_tracker import PayloadMismatchError
from pynamodb_tracker.aws_lambda import handles
from tests.engine.actions import PASS, Action, DropRequest, Hold
from tests.support.operations import Boom
from tests.support.proxy_rules import arrive
from tests.support.world import World, ends_of_chunks, scan


def deliver(step: Any, payload: str = "", *, fails: bool = False, **attributes: Any) -> Any:
    """Deliver an event about a task that is created if it is missing, and return the result."""

    def work(_ctx: Any, _event: Any) -> str:
        if fails:
            raise Boom
        return f"result of {payload}"

    handler = handles(
        step, task_id="id", create_if_missing=lambda _: attributes, must_match="payload", store_result=True
    )
    with contextlib.suppress(Boom):
        return handler(work)({"id": "o", "payload": payload}, None)


def is_held_by_nobody(world: World) -> bool:
    """Return whether the task is in progress although all runs of it have ended."""
    return bool(world.task.state == world.mine.confirm.in_progress)


def late_create(world: World) -> bool:
    """Return whether a late copy of the put, whose run has failed since, takes the task back to its beginning."""
    late = Hold()
    world.goes_wrong(late, target="PutItem")
    deliver(world.mine.confirm, fails=True)
    arrive(world.proxy, late)
    return is_held_by_nobody(world)


def late_claim_before_the_create(world: World) -> bool:
    """Return whether a late copy of the claim that found no task locks it after the run that has created it."""
    late = Hold()
    world.goes_wrong(late)
    deliver(world.mine.confirm, fails=True)
    arrive(world.proxy, late)
    return is_held_by_nobody(world)


def unheard_create(world: World, *earlier: Hold) -> bool:
    """Return whether a put without a result, which arrives after the row was read, leaves a task that nobody runs."""
    late = Hold()
    turns: dict[str, list[Action]] = {"UpdateItem": [*earlier], "PutItem": [late, DropRequest()]}
    world.mine.Meta.max_retry_attempts = 1
    world.proxy.rule = lambda target, *_: turns[target].pop(0) if turns.get(target) else PASS
    with contextlib.suppress(PutError):
        deliver(world.mine.confirm)
    for each in (late, *earlier):
        arrive(world.proxy, each)
    return is_held_by_nobody(world)


def late_claim_before_an_unheard_create(world: World) -> bool:
    """Return whether a late copy of the claim before it does that."""
    return unheard_create(world, Hold())


def answered_with_the_result_of_another_payload(world: World) -> bool:
    """Return whether the loser of two deliveries at once, which have different payloads, gets the winner's result."""
    world.goes_wrong(lambda: deliver(world.theirs.confirm, "theirs"), target="PutItem")
    try:
        return bool(deliver(world.mine.confirm, "mine") == "result of theirs")
    except PayloadMismatchError:
        return False


def chunks_that_never_expire(world: World) -> bool:
    """Return whether the chunks of data stay for ever, although the task has ended."""
    deliver(world.mine.ship, data=scan("x"))
    [end] = ends_of_chunks(world)
    return end is None
