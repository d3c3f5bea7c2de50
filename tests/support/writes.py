"""The writes that a step sends: as prepared by the library, with its values by their names."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from pynamodb_tracker import Step, Task, UseCase
from pynamodb_tracker.clock import stamp
from pynamodb_tracker.model.row import Membership
from pynamodb_tracker.testing import stopped_clock
from pynamodb_tracker.transitions import StepStatements, deletion, groups
from pynamodb_tracker.transitions.created_claims import as_pending, claimed_task
from pynamodb_tracker.transitions.creations import NewTask, deletion_as_seen
from pynamodb_tracker.transitions.ending import Ending
from pynamodb_tracker.transitions.joins import counted, counted_last
from pynamodb_tracker.transitions.prepared import PreparedWrite

__all__ = ["as_told", "puts_of_ship", "writes_of_deliver", "writes_of_ship"]


_SEEN: dict[str, Any] = {"asked": {}}
"""A row to merge into, which others have asked for before."""


class Named(dict[str, Any]):
    """Values for a prepared write that are their own names."""

    def __missing__(self, name: str) -> str:
        return f":{name}"


class Table(Task):
    class Meta:
        table_name = "tasks"
        region = "us-east-1"


class Order(Table):
    use_case_id = UseCase("order")
    confirm_payment = Step(100)
    ship = Step(200)
    deliver = Step(300)


def writes_of_deliver() -> dict[str, PreparedWrite]:
    """Return the writes that only the last step, `deliver` (300), has, by their names."""
    writes = StepStatements(Order, Order.deliver._definition.codes, 3)
    return {
        "succeed at last": writes.succeed({}),
        "take in": writes.succeed({}, _ending("asked as seen", "starts over", code=100)),
        "succeed as a child": writes.commit({}, _ending("nothing asked", "counted", code=1000)),
    }


def writes_of_ship() -> dict[str, PreparedWrite]:
    """Return every write of the step `ship` (200), between `confirm_payment` (100) and `deliver` (300), by its name."""
    writes = StepStatements(Order, Order.ship._definition.codes, 3)
    next_turn = Ending(Order.ship.pending.code)
    next_turn.start_over(":round")
    for part in ("set occurrence", "remove occurrence_count", "remove extra_time"):
        next_turn.add(part)
    return {
        "claim": writes.claim,
        "claim with payload": writes.claim_with_payload,
        "claim from": writes.claim_from(Order.confirm_payment.ignored.code),
        "shut out": writes.shut_out(has_token=True),
        "shut out first": writes.shut_out(has_token=False),
        "extend": writes.extend,
        "save": writes.save({}),
        "check": writes.check,
        "commit": writes.commit({}),
        "keep out": writes.keep_out,
        "commit and wait": writes.commit({}, _ending("begins to wait", "until")),
        "commit and go on waiting": writes.commit({}, _ending("goes on waiting", "without limit")),
        "succeed": writes.succeed({}),
        "fail": writes.fail,
        "give up": writes.give_up(),
        "release": writes.release,
        "spend": writes.spend(),
        "spend abandoned": writes.spend_abandoned(),
        "reopen": writes.reopen(kept=False, recorded=False),
        "reopen by name": writes.reopen(kept=False, recorded=True, has_errors=True),
        "reopen ended": writes.reopen(kept=True, recorded=False, is_read=True),
        "reopen waiting": writes.reopen(kept=False, recorded=False, is_read=True, parked=True),
        "reopen repeating": writes.reopen(kept=False, recorded=False, is_read=True, ending=next_turn, has_asked=True),
        "skip": writes.skip(next_turn, abandoned=False, has_asked=True),
        "skip abandoned": writes.skip(next_turn, abandoned=True, has_asked=True),
        "release by command": writes.revoke,
        "reopen with turn": writes.reopen(kept=False, recorded=False, is_read=True, membership=Membership.TURN),
        "enter again": writes.enter_again(kept=False, recorded=False, has_turn=False, waits=False),
        "enter idle group": writes.enter_again(kept=False, recorded=False, has_turn=True, waits=False),
        "ignore": writes.ignore(),
        "ignore with turn": writes.ignore(membership=Membership.TURN),
        "ignore in queue": writes.ignore(membership=Membership.QUEUE),
        "ignore running": writes.cancel(),
        "merge": writes.merge("merged", _SEEN, {}),
        "merge and move": writes.merge("merged", _SEEN, {}, moves_due=True),
        "ask again": writes.merge("again", _SEEN, {}),
        "ask once more": writes.merge("again", {**_SEEN, "again": {}}, {}),
        "begin anew": writes.merge("anew", _SEEN, {}),
        "delete": deletion(Order, held=False),
        "delete as seen": deletion_as_seen(Order, has_lock=True),
        "delete abandoned": deletion(Order, held=True),
        "delete with turn": deletion(Order, held=False, membership=Membership.TURN),
        "delete in queue": deletion(Order, held=False, membership=Membership.QUEUE),
        "group begins": groups.written(writes.table, is_new=True, idle=False, data=False),
        "group changes": groups.written(writes.table, is_new=False, idle=False, data=False),
        "group stores data": groups.written(writes.table, is_new=False, idle=True, data=True),
        "wake": groups.woken(Order, others=False),
        "count": counted(writes.table),
        "count last": counted_last(writes.table, parked=True),
    }


def puts_of_ship() -> dict[str, dict[str, str]]:
    """Return the puts of the step `ship` (200), by their names: the condition as `IF`, what is put without its key."""
    writes, lock_for = StepStatements(Order, Order.ship._definition.codes, 3), timedelta(minutes=5)
    with stopped_clock() as clock:
        created = clock.now()
        claimed = claimed_task(writes, "o", {}, lock_for=lock_for, payload="payload")
        clock.advance(timedelta(seconds=1))
        pending = as_pending(writes, claimed, "later token")
        now = clock.now()
    names = {claimed.row.lock: "token", stamp(created): "now", stamp(created + lock_for): "due"}
    return {
        "create claimed": _put_as_told(claimed, names),
        "create pending": _put_as_told(
            pending, {**names, "later token": "token", stamp(created): "created", stamp(now): "now"}
        ),
    }


def _put_as_told(task: NewTask[Any], names: dict[str, str]) -> dict[str, str]:
    put = task.puts(Table.tracker.table.connection())[0]["Put"]
    condition = re.sub(r"#\d+", lambda place: put["ExpressionAttributeNames"][place[0]], put["ConditionExpression"])
    told = []
    for name, typed in put["Item"].items():
        [(kind, value)] = typed.items()
        if kind == "L":
            value = f"[{', '.join(each['N'] for each in value)}]"
        elif kind == "S":
            value = f":{names.get(value, name.partition('#')[0])}"
        told.append(f"{name} = {value}")
    return {"IF": condition.replace("exists (", "exists("), "PUT": ", ".join(told[2:])}


def _ending(*parts: str, code: int = 300) -> Ending:
    """Return what a success does, made of these parts; that of `ship` by default."""
    ending = Ending(code)
    for part in parts:
        ending.add(part)
    return ending


def as_told(write: PreparedWrite) -> dict[str, Any]:
    """Return the parts of a write: its condition as `IF`, and what it sets and removes."""
    request = write.request({}, Named())
    names, values = request["ExpressionAttributeNames"], request["ExpressionAttributeValues"]
    filled = {
        key: re.sub(
            r"[#:]\d+", lambda place: names.get(place[0]) or str(*values[place[0]].values()), request.get(key, "")
        ).replace("exists (", "exists(")
        for key in ("ConditionExpression", "UpdateExpression")
    }
    update = re.fullmatch(r"(?:SET (?P<SET>.*?))?(?: ?REMOVE (?P<REMOVE>.*))?", filled["UpdateExpression"])
    assert update is not None
    return {"IF": filled["ConditionExpression"], **{key: text for key, text in update.groupdict().items() if text}}
