"""The writes that a step sends, as the library prepares them, with readable names for their values."""

import re
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from unittest import mock

from pynamodb_tracker import Repeat, Step, Task, UseCase
from pynamodb_tracker.clock import NEVER, stamp
from pynamodb_tracker.control import limit
from pynamodb_tracker.dynamodb.connection import sharing_requests
from pynamodb_tracker.features.checkpoints import build_save_of_parts
from pynamodb_tracker.features.children.follow_ups import follow_ups_of
from pynamodb_tracker.features.children.joins import ChildList, build_adoption, build_count, build_last_count
from pynamodb_tracker.features.groups import queue as groups
from pynamodb_tracker.features.merges import build_merge, restart_values
from pynamodb_tracker.features.repeats import Turn, build_next_round, build_pin, payload_removals
from pynamodb_tracker.features.signals import Waits, build_send_write
from pynamodb_tracker.model.cancelled import CancelRecord
from pynamodb_tracker.model.row import Membership, load
from pynamodb_tracker.testing import stopped_clock
from pynamodb_tracker.transitions import Claim, Journal, StepStatements
from pynamodb_tracker.transitions.cancelling import build_cancel
from pynamodb_tracker.transitions.claims import build_shut_out
from pynamodb_tracker.transitions.commands import (
    build_delete,
    build_ignore,
    build_skip,
    build_spend,
    build_write_on_held,
    complete_command,
)
from pynamodb_tracker.transitions.ending import build_end
from pynamodb_tracker.transitions.reopening import build_reentry, build_reopen
from pynamodb_tracker.transitions.success import build_extension, build_keep_out, build_success
from pynamodb_tracker.writes import conditions as when
from pynamodb_tracker.writes.conditions import PreparedWrite
from pynamodb_tracker.writes.creations import NewTask, build_claimed_task, build_pending_task
from pynamodb_tracker.writes.participants import success_participants
from pynamodb_tracker.writes.transition import Stored, Transition

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TOKEN = "0" * 24
TIME = "2026-01-01T00:00:00.000000+0000"
RULE = Repeat.every(timedelta(hours=1))

TOLD = {
    "due_time": "due",
    "expire_time": "expiry",
    "group_number": "number",
    "lock": "token",
    "join_token": "token",
    "lock_expire_time": "expire",
    "update_time": "now",
}
"""The names of these attributes' values in docs/explanation/lock.md."""


class Named(dict[str, Any]):
    """Values for a prepared write, each with its own name as its value."""

    def __missing__(self, name: str) -> str:
        return f":{told_name(name)}"


def told_name(slot: str) -> str:
    """Return a slot's name in docs/explanation/lock.md."""
    return TOLD.get(slot, slot.removeprefix("own ").partition("#")[0])


class Table(Task):
    class Meta:
        table_name = "tasks"
        region = "us-east-1"


class Order(Table):
    use_case_id = UseCase("order")
    confirm_payment = Step(100)
    ship = Step(200)
    deliver = Step(300)


def row(**stored: Any) -> Order:
    """Return a task that waits at the step `ship`, with these stored attributes."""
    item = {"status": {"N": "200"}, "fence": {"N": "0"}, "attempt": {"N": "0"}, "creation": {"S": TOKEN}}
    times = {name: {"S": TIME} for name in ("due_time", "create_time", "update_time")}
    return load(Order, {"task_id": {"S": "o"}, "use_case_id": {"S": "order"}, **item, **times, **stored})


def in_group(**stored: Any) -> Order:
    return row(group={"S": "g"}, group_number={"N": "1"}, **stored)


def claim_of(step: Any, **stored: Any) -> Claim[Order]:
    return Claim(step, row(lock_expire_time={"S": TIME}, **stored), "t")


def success_of(
    claim: Claim[Order],
    *,
    children: int | None = None,
    until: datetime | None = None,
    awaited_signals: Collection[str] = (),
) -> Transition:
    """Return a run's success without changes, optionally with something for the next step to wait for."""
    journal = Journal(claim)
    waits = Waits.of_run(journal)
    waits.names, waits.until = frozenset(awaited_signals), until
    if children is not None:
        waiting = follow_ups_of(journal)
        waiting.child_list = ChildList(claim.task)
        waiting._left = [SimpleNamespace(waits=True, member=None)] * children  # type: ignore[list-item]  # all it reads
    return build_success(journal, {}, success_participants(journal, claim.task))


def writes_of_deliver() -> dict[str, PreparedWrite]:
    """Return the writes that only the last step, `deliver` (300), has, by name."""
    step = StepStatements(Order, Order.deliver._definition.codes, 3)
    again = {"queued": {"M": {"due_time": {"S": TIME}, "attributes": {"M": {}}}}, "request_count": {"N": "1"}}
    writes = {
        "succeed at last": success_of(claim_of(step)),
        "take in": success_of(claim_of(step, **again)),
        "succeed as a child": committed(success_of(claim_of(step, parent={"S": "order#0#p"}))),
    }
    return {name: rendered(step, write) for name, write in writes.items()}


def rendered(step: StepStatements[Order], write: Transition) -> PreparedWrite:
    step.complete(write, "o")
    return write.render(step.table)


def committed(success: Transition) -> Transition:
    success.add(when.later_save(), saves=1)
    return success


def writes_of_ship() -> dict[str, PreparedWrite]:
    """Return every write of the step `ship` (200), between `confirm_payment` (100) and `deliver` (300), by name."""
    step = StepStatements(Order, Order.ship._definition.codes, 3)
    claim, held = claim_of(step), row(lock={"S": TOKEN})
    plain, asked = row(), row(request_count={"N": "1"})
    again, repeating = (
        row(request_count={"N": "1"}, queued={"M": {}}),
        row(request_count={"N": "1"}, repeat={"S": "damaged"}),
    )
    queue, ignored = in_group(turn_due_time={"S": TIME}, blockers={"N": "1"}), in_group(status={"N": "203"})
    repeating.attribute_values["repeat"] = RULE
    turn = build_next_round(repeating, Turn(NOW, {"occurrence": NOW, "occurrence_count": None, "extra_time": None}))
    turn.code = 200

    def moved(transition: Transition) -> Transition:
        transition.time = NOW
        return transition

    def ended(name: str, code: int, attempt: int, **values: Any) -> Transition:
        end = build_end(claim, name, code, NOW, attempt=attempt)
        end.add(**values)
        return end

    def failed(code: int, **values: Any) -> Transition:
        return ended("fail", code, 1, errors=Stored([]), last_error="e", **values)

    def commanded(transition: Transition, **values: Any) -> Transition:
        return complete_command(step, transition, NOW, "t", errors=Stored([]), **values)

    def reopened(found: Order | None, *, kept: bool = False, by: bool = False) -> Transition:
        entry: list[dict[str, Any]] = [{"M": {}}]
        with sharing_requests(SimpleNamespace()):
            return moved(build_reopen(step, "t", found, kept=kept, entry=entry if by else None))

    def entered(*, has_turn: bool) -> Transition:
        entering = build_reentry(step, "t", ignored, kept=False, entry=None)
        entering.add(group_number=1)
        if not has_turn:
            entering.add(turn_due_time=NOW, blockers=1)
        return moved(entering)

    def merged(how: str, found: Order, **values: Any) -> Transition:
        return build_merge(step, how, found, {}, values, token=TOKEN)

    def reopened_for_a_turn() -> Transition:
        reopening = build_reopen(step, "t", repeating, kept=False, entry=None)
        reopening.follow(turn)
        return moved(reopening)

    as_set_aside = {"last_error": "e"}
    record, running = CancelRecord(200, NOW, "ada", "r"), row(status={"N": "201"}, lock={"S": TOKEN})
    cancelled = row(status={"N": "1001"}, cancelled={"M": record.stored()})
    kept_again: dict[str, Any] = {"queued": Stored({})}
    begun_anew = moved(merged("restarted", asked, **restart_values("t", asked)))
    begun_anew.changes = payload_removals(Order)
    writes = {
        "claim": moved(step.claim("t", "w", NOW, timedelta(0), code=None, payload=None)),
        "claim with payload": moved(step.claim("t", "w", NOW, timedelta(0), code=None, payload="p")),
        "claim from": moved(step.claim("t", "w", NOW, timedelta(0), code=103, payload=None)),
        "claim from a wait": moved(step.claim("t", "w", NOW, timedelta(0), code=203, payload=None, parked=True)),
        "shut out": build_shut_out(held, "t"),
        "shut out first": build_shut_out(plain, "t"),
        "extend": build_extension(step, "t", NOW),
        "save": step.save("t", 1),
        "save parts": build_save_of_parts(step, "t", 1, {}),
        "pin": build_pin(step, "t", {"occurrence": NOW}),
        "check": step.save("t", 1),
        "commit": committed(success_of(claim)),
        "keep out": build_keep_out(step, "t", 2, 1),
        "commit and wait": committed(success_of(claim, children=1, until=NOW)),
        "commit after a wait": committed(success_of(claim_of(step, blockers={"N": "1"}, wait_until={"S": TIME}))),
        "succeed": success_of(claim),
        "succeed and wait": success_of(claim, awaited_signals={"paid"}, until=NOW),
        "succeed after the limit": success_of(claim_of(step, awaited_signals={"SS": ["paid"]})),
        "fail": failed(202),
        "give up": failed(203),
        "postpone": failed(202, postpone_count=1, first_failure="t"),
        "release": ended("release", 200, 0, release_count=1),
        "spend": commanded(build_spend(step, plain, abandoned=False), **as_set_aside),
        "spend abandoned": commanded(build_spend(step, plain, abandoned=True), **as_set_aside),
        "reopen": reopened(None),
        "reopen by name": reopened(None, by=True),
        "reopen ended": reopened(plain, kept=True),
        "reopen waiting": reopened(row(blockers={"N": "1"})),
        "reopen repeating": reopened_for_a_turn(),
        "skip": commanded(build_skip(asked, turn, abandoned=False), **as_set_aside),
        "skip abandoned": commanded(build_skip(asked, turn, abandoned=True), **as_set_aside),
        "unlock": commanded(build_write_on_held(step, "unlock", 200, held)),
        "reopen with turn": reopened(in_group()),
        "enter again": entered(has_turn=False),
        "enter idle group": entered(has_turn=True),
        "ignore": commanded(build_ignore(step, plain), **as_set_aside),
        "ignore with turn": commanded(build_ignore(step, in_group()), **as_set_aside),
        "ignore in queue": commanded(build_ignore(step, queue), **as_set_aside),
        "ignore running": commanded(build_write_on_held(step, "ignore running", 203, held), **as_set_aside),
        "cancel": commanded(build_cancel(plain, step.codes, None, record), **as_set_aside),
        "cancel running": commanded(build_cancel(running, step.codes, None, record), **as_set_aside),
        "reopen cancelled": reopened(cancelled),
        "merge": merged("merged", asked),
        "merge and move": merged("merged", asked, due_time=NOW),
        "ask again": merged("queued", asked, **kept_again),
        "ask once more": merged("queued", again, **kept_again),
        "ask with parts": merged("queued", row(checkpoints={"M": {}}), **kept_again),
        "begin anew": begun_anew,
    }
    table = step.table
    return {
        **{name: rendered(step, write) for name, write in writes.items()},
        "delete": build_delete(Order),
        "delete as seen": build_delete(Order, when.seen("lock", is_there=True)),
        "delete abandoned": build_delete(Order, when.lock_expired()),
        "delete child": build_delete(Order, when.seen("parent")),
        "delete with turn": build_delete(Order, membership=Membership.TURN),
        "delete in queue": build_delete(Order, membership=Membership.QUEUE),
        "group begins": groups.build_group_write(table, is_new=True, idle=False, data=False),
        "group changes": groups.build_group_write(table, is_new=False, idle=False, data=False),
        "group stores data": groups.build_group_write(table, is_new=False, idle=True, data=True),
        "wake": groups.build_wake(Order, others=False),
        "send last": build_send_write(Order, "paid", "last", of_round=False),
        "send late": build_send_write(Order, "paid", "late", of_round=False),
        "send more": build_send_write(Order, "paid", "more", of_round=False),
        "send early": build_send_write(Order, "paid", "early", of_round=True),
        "send first": build_send_write(Order, "paid", "first", of_round=True),
        "adopt": build_adoption(table),
        "count": build_count(table),
        "count last": build_last_count(table, parked=True),
    }


def puts_of_ship() -> dict[str, dict[str, str]]:
    """Return the puts of the step `ship` (200) by name: the condition as `IF`, and the item without its key."""
    writes, lock_for = StepStatements(Order, Order.ship._definition.codes, 3), timedelta(minutes=5)
    with stopped_clock() as clock:
        created = clock.now()
        claimed = build_claimed_task(writes, "o", {}, lock_for=lock_for, payload="payload")
        clock.advance(timedelta(seconds=1))
        pending = build_pending_task(writes, claimed, "later token")
        now = clock.now()
    names = {claimed.row.lock: "token", stamp(created): "now", stamp(created + lock_for): "due"}
    return {
        "create claimed": _put_as_told(claimed, names),
        "create pending": _put_as_told(
            pending, {**names, "later token": "token", stamp(created): "created", stamp(now): "now"}
        ),
    }


def writes_of_a_slot() -> dict[str, dict[str, str]]:
    """Return the writes to a limit's slot by name: the condition as `IF`, and the changes."""
    sent: list[dict[str, Any]] = []

    def send(_: object, __: str, request: dict[str, Any], **___: object) -> dict[str, Any]:
        sent.append(request)
        token = request["ExpressionAttributeValues"].get(":token", {"S": TOKEN})
        return {"Attributes": {"lock": token, "lock_expire_time": {"S": TIME}}}

    with mock.patch.object(limit, "send", send):
        table = limit.SlotTable(Table.tracker.connection(), "bank", timedelta(0))
        slot = table.take(7)
        table.renew(7, slot.lock)
        table.give_back(7, slot.lock)
        table.ask_for(slot)
    return dict(
        zip(("take slot", "renew slot", "give back slot", "ask for slot"), map(_slot_as_told, sent), strict=True)
    )


def _slot_as_told(request: dict[str, Any]) -> dict[str, str]:
    names = request["ExpressionAttributeNames"]
    values = {":until": ":expire", ":expired": ":now_minus_margin", ":mark": ":limit", ":wanted": ":now"}
    if ":wanted" in request["UpdateExpression"]:
        values[":token"] = ":seen_lock"
    condition, update = (
        re.sub(r"[#:]\w+", lambda place: names.get(place[0]) or values.get(place[0], place[0]), request[key])
        for key in ("ConditionExpression", "UpdateExpression")
    )
    changes = re.fullmatch(r"(?:SET (?P<SET>.*?))?(?: ?REMOVE (?P<REMOVE>.*?))?", update)
    assert changes is not None
    return {"IF": condition, **{key: text for key, text in changes.groupdict().items() if text}}


def _put_as_told(task: NewTask[Any], names: dict[str, str]) -> dict[str, str]:
    put = task.puts(Table.tracker.table.connection())[0]["Put"]
    told = []
    for name, typed in put["Item"].items():
        [(kind, value)] = typed.items()
        if kind == "L":
            value = f"[{', '.join(each['N'] for each in value)}]"
        elif kind == "S":
            value = f":{names.get(value, name.partition('#')[0])}"
        told.append(f"{name} = {value}")
    return {"IF": put["ConditionExpression"].replace("exists (", "exists("), "PUT": ", ".join(told[2:])}


def as_told(write: PreparedWrite) -> dict[str, Any]:
    """Return a write's parts: its condition as `IF`, and what it sets and removes."""
    request = write.request({}, Named())
    names, values = request.get("ExpressionAttributeNames", {}), request["ExpressionAttributeValues"]
    filled = {
        key: re.sub(
            r"[#:]\d+", lambda place: names.get(place[0]) or str(*values[place[0]].values()), request.get(key, "")
        )
        .replace("exists (", "exists(")
        .replace(stamp(NEVER), ":never")
        for key in ("ConditionExpression", "UpdateExpression")
    }
    update = re.fullmatch(
        r"(?:SET (?P<SET>.*?))?(?: ?REMOVE (?P<REMOVE>.*?))?(?: ?DELETE (?P<DELETE>.*))?", filled["UpdateExpression"]
    )
    assert update is not None
    return {"IF": filled["ConditionExpression"], **{key: text for key, text in update.groupdict().items() if text}}
