"""Create a task, or merge a request into the existing one. Each call counts exactly once.

A request is in exactly one place: in the row while the task waits at its first step, otherwise in `queued`, which the
success of the last step takes in. That way, every call is followed by a run that begins after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar, cast

from pynamodb.attributes import Attribute, UnicodeAttribute
from pynamodb.constants import BOOLEAN, MAP, NULL, NUMBER, STRING
from pynamodb.exceptions import PynamoDBConnectionError, UpdateError
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.operand import Path

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item, Refused
from pynamodb_tracker.dynamodb.error_codes import is_unheard
from pynamodb_tracker.dynamodb.limits import check
from pynamodb_tracker.dynamodb.retries import slept_before_retry
from pynamodb_tracker.exceptions import TaskNotFoundError, ValueNotStorableError
from pynamodb_tracker.features import repeats
from pynamodb_tracker.features.overflow import expire_again, keep, renew
from pynamodb_tracker.model.changes import Changes, changes_of, check_row_size, raise_if_invalid
from pynamodb_tracker.model.failure import add_note
from pynamodb_tracker.model.pending_request import PendingRequest
from pynamodb_tracker.model.repeat import Repeat
from pynamodb_tracker.model.row import TaskRow, load
from pynamodb_tracker.status import END, Codes, end_of
from pynamodb_tracker.writes import conditions as when
from pynamodb_tracker.writes.conditions import guard
from pynamodb_tracker.writes.creations import new_task, put, replaces_expired, tracked
from pynamodb_tracker.writes.lock import new_token
from pynamodb_tracker.writes.prepared import slot
from pynamodb_tracker.writes.refusals import check_format, in_group, kept_changing
from pynamodb_tracker.writes.statements import WAITS, StepStatements, get, is_urgent, loaded
from pynamodb_tracker.writes.transition import ZERO, Same, Stored, Transition, of_round, without_payloads

T = TypeVar("T", bound=TaskRow)
T_co = TypeVar("T_co", bound=TaskRow, covariant=True)

Effect = Literal["created", "merged", "queued", "restarted", "ignored", "cancelled"]

_TRIES, _AT_ONCE = 16, 3
"""How often a call writes, and after how many refusals it pauses before it reads the row and tries again."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0
"""Seconds."""

_KEPT_TOKENS = 8
"""How many calls a row remembers. A call whose response was lost looks for its token there."""

_MOST_ERRORS = 3
"""How many requests of a call may get no response. Each takes as long as the SDK tries."""

_OPERATION = "merge into"

_DOUBT = "it may have been merged, because a request got no response, and the row does not show it any more"


@guard
def can_take(codes: Codes) -> Condition:
    """Require that the task waits at this step, its first one, and that nothing asked for earlier waits for it."""
    return when.at(codes.pending, codes.failed, codes.ignored).condition & when.no_request_pending().condition


@guard
def cannot_take(codes: Codes) -> Condition:
    """Require that the task runs, or is past this step, its first one, and that nobody has asked since."""
    return ~when.at(codes.pending, codes.failed, codes.ignored, END).condition & when.no_request_pending().condition


@guard
def has_no_parts() -> Condition:
    """Require that no part of a run is stored: another request must not be answered with what an earlier one did."""
    return TaskRow.checkpoints.does_not_exist()


@guard
def has_parts() -> Condition:
    """Require that a part of a run is stored, so that the row cannot take a request, and nobody has asked since."""
    return TaskRow.checkpoints.exists() & when.not_ended().condition & when.no_request_pending().condition


@guard
def keeps_request() -> Condition:
    """Require that a request still waits for the success of the last step."""
    return TaskRow.queued.exists() & when.not_ended().condition


@guard
def due_as_seen() -> Condition:
    """Require that nobody has moved the due time since the row was read."""
    return TaskRow.due_time == slot(TaskRow.due_time, "seen_due")


@guard
def value_seen(name: str, stored_name: str, kind: str | None) -> Condition:
    """Require that the attribute has the value of this type that was read, or none if it had none."""
    attribute = UnicodeAttribute(attr_name=stored_name)  # in place of its own: the class may not declare it
    path = Path(attribute)
    return path.does_not_exist() if kind is None else path == slot(attribute, f"seen {name}", kind)


@dataclass(frozen=True, slots=True)
class Merged(Generic[T_co]):
    """The effect of `create_or_merge`, and the task after it.

    `effect` is `created`, or `merged` if the task is pending at its first step, with the request's attributes. It is
    `queued` if the task runs or is past its first step: it is pending again after its success. It is `restarted` if the
    task had succeeded, and is pending again. It is `ignored` if the task is ignored: the request is kept, but no run
    follows until the task is reopened. It is `cancelled` if the task was cancelled: nothing changes.
    """

    task: T_co
    effect: Effect


class Merge(Generic[T]):
    """One call of `create_or_merge`."""

    def __init__(
        self,
        statements: StepStatements[T],
        task_id: str,
        attributes: Mapping[str, Any],
        *,
        merge: Callable[[T, Mapping[str, Any]], object] | None,
        due_time: datetime | timedelta | None,
        debounce: bool,
        trace: Mapping[str, str] | None,
        repeat: Repeat | None,
        urgent: bool,
    ) -> None:
        """Take the `statements` of the first step. A ValueNotStorableError names the attribute."""
        self._statements = statements
        self._repeat = repeat
        self._asks_for_run = repeat is None or due_time is not None
        """Whether it asks for a run. A call that only gives a rule leaves that to the rule."""
        self._is_over = repeat is not None and repeats.first_turn(repeat, clock.now()) is None
        """Whether the rule has no occurrence left. A program may still have it, but it creates no task."""
        self._new = new_task(
            statements.model,
            task_id,
            None,
            due_time,
            attributes,
            also=tracked(statements.model, task_id, urgent=urgent, trace=trace),
            repeat=None if self._is_over else repeat,
        )
        self._function = merge
        self._given = MappingProxyType({**attributes})
        self._debounce = debounce
        self._urgent = urgent
        self._token: str = self._new.row.creation
        """Once the request is stored, the row has this token, as `creation` or in `request_tokens`."""
        self._effect: Effect = "created"
        """The effect of the last request."""
        self._unheard: tuple[str | None, int] | None = None
        """The row's `creation` and `request_count` before a write that may still be applied."""
        self._errors: list[PynamoDBConnectionError] = []
        """The errors of requests without a response."""
        self._kept = False
        """Whether the time to live of a finished task's chunks was removed."""

    def carry_out(self) -> Merged[T]:
        """Send requests until one is applied. Raise if the task cannot take it, or if the outcome stays unknown."""
        try:
            return self._carry_out()
        except PynamoDBConnectionError as error:
            if self._unheard is not None:
                add_note(error, f"pynamodb_tracker: {_DOUBT}")
            raise
        finally:
            if self._kept:
                expire_again(self._statements.model, self._new.row.task_id)

    def _carry_out(self) -> Merged[T]:
        row: T | None = get(self._statements.model, self._new.row.task_id) if self._is_over else None
        for retry in range(_TRIES):
            failure: Exception = kept_changing(self._statements, self._new.row.task_id, _OPERATION, retry + 1)
            try:
                return self._write(row)
            except Refused as refused:
                found = self._find(row, refused.item, repeated=refused.repeated)
            except PynamoDBConnectionError as error:
                self._errors.append(error)
                failure = error
                if not is_unheard(error):
                    raise
                found = self._find(row, None, repeated=True)
            if merged := self._settled(found):
                return merged
            if len(self._errors) == _MOST_ERRORS:
                raise self._errors[-1]
            base = _FIRST_PAUSE if retry >= _AT_ONCE else 0.0
            if not slept_before_retry(max(0, retry - _AT_ONCE), base=base, longest=_LONGEST_PAUSE):
                raise failure
            if base:  # others are quicker: after the pause, the row that refused is outdated
                found = get(self._statements.model, self._new.row.task_id)
                if merged := self._settled(found):
                    return merged
            row = found
        raise kept_changing(self._statements, self._new.row.task_id, _OPERATION, retry + 1)

    def _find(self, before: T | None, item: Item | None, *, repeated: bool) -> T | None:
        """Return the row that refused a write. A repeated write may have been applied."""
        if repeated and before is not None:
            self._unheard = before.creation, before.request_count or 0
        model = self._statements.model
        return get(model, self._new.row.task_id) if item is None else loaded(model, item)

    def _settled(self, row: T | None) -> Merged[T] | None:
        """Return the result if the row has this call's token: another copy of a request was applied.

        Raises if an unanswered write may have been applied, and the row has forgotten the calls of that time.
        """
        if row is not None and (row.creation == self._token or self._token in (row.request_tokens or ())):
            self._unheard = None
            return self._merged_with(row)
        if self._unheard is None:
            return None
        creation, asked = self._unheard
        if row is not None and row.creation == creation and (row.request_count or 0) <= asked + _KEPT_TOKENS:
            if (row.request_count or 0) != asked:
                self._unheard = None  # it was not applied, and will be refused
            return None
        raise self._errors[-1] if self._errors else UpdateError("Failed to update item: the first response got lost")

    def _write(self, row: T | None) -> Merged[T]:
        """Create the task, or write the request into its row. Send nothing if the row already has it."""
        if replaces_expired(self._new, row) or row is None:
            if self._is_over:
                raise ValueError(
                    f"cannot create {self._statements.model.__name__} {self._new.row.task_id!r}: {self._repeat} has no "
                    "further occurrence"
                )
            self._effect = "created"
            put(self._new)
            return Merged(self._new.row, self._effect)
        check_format(row, _OPERATION)
        if row.group is not None:
            raise in_group(row, _OPERATION, "a task of a group runs once: create one for each request")
        if row.cancelled is not None:
            return Merged(row, "cancelled")
        if end_of(row.status):
            return self._begin_anew(row)
        codes = self._statements.codes
        waits = row.status in (codes.pending, codes.failed, codes.ignored)
        if waits and row.queued is None and "checkpoints" not in row._row_state.stored:
            return self._merge_into_row(row)
        return self._ask_again(row)

    def _merge_into_row(self, row: T) -> Merged[T]:
        self._effect = "merged"
        changes = {**self._merged(row, {}), **self._renewed(row), **self._made_urgent(row)}
        due = self._due_for(row) if self._asks_for_run else None
        if self._repeat is not None or row.repeat is not None:
            of_rule, due = repeats.merged(row, self._repeat, due, clock.now())
            changes, due = {**changes, **of_rule}, None if row.awaited_signals else due
        if not changes and due is None:
            return self._merged_with(row)
        check_row_size(row, {attribute.attr_name: value for attribute, value in changes.values()})
        return self._send(row, changes, {} if due is None else {"due_time": due})

    def _due_for(self, row: T) -> datetime | None:
        """Return the new due time of a waiting row, or None if it keeps its own, as one that waits for a retry does."""
        if row.status != self._statements.codes.pending or "awaited_signals" in row._row_state.stored:
            return None
        due: datetime = max(self._new.row.due_time, row.update_time)
        if self._debounce:
            return None if due == row.due_time else due
        return None if row.due_time <= clock.now() or due >= row.due_time else due

    def _ask_again(self, row: T) -> Merged[T]:
        self._effect = "queued"
        before, again = self._pending_after(row)
        changes, asks_for_nothing = self._renewed(row), before is None and again == PendingRequest(clock.NEVER, {})
        due = self._due_for(row) if self._asks_for_run and not self._debounce else None
        if due is not None and row.repeat is not None:  # it waits for its next occurrence, and runs before that
            of_rule, due = repeats.merged(row, None, due, clock.now())
            changes = {**changes, **of_rule}
        if (again == before or asks_for_nothing) and not changes and due is None:
            return self._merged_with(row)
        stored = again.stored()
        check_row_size(row, {"queued": {MAP: stored}})
        times = {} if due is None else {"due_time": due}
        return self._send(row, changes, {"queued": Stored(stored), **times})

    def _renewed(self, row: T) -> Changes:
        """Renew the time to live of an ignored task, or remove it if the task repeats.

        If a repeating task expired, the next start of a program would create it again, not ignored.
        """
        if row.expire_time is None:
            return {}
        expiry = None if self._repeat is not None else row.tracker.expiry_of(row.status, clock.now())
        attribute = cast("Attribute[Any]", TaskRow.expire_time)
        return {"expire_time": (attribute, None if expiry is None else {NUMBER: expiry})}

    def _made_urgent(self, row: T) -> Changes:
        """Return the changes that make a waiting task urgent. Its index key shows that its state is as read."""
        if not self._urgent or is_urgent(row):
            return {}
        key = row.tracker.status_key(row.status, row.task_id, is_urgent=True)
        changes: dict[str, Any] = {"urgent": (TaskRow.urgent, {BOOLEAN: True})}
        return {**changes, "status_key": (TaskRow.status_key, {STRING: key})}

    def _pending_after(self, row: T) -> tuple[PendingRequest | None, PendingRequest]:
        """Return the request in `queued`, and the same with this call's request added."""
        due = self._new.row.due_time if self._asks_for_run else clock.NEVER
        before = row.queued
        rule = None if before is None else before.repeat
        if self._repeat is not None and self._repeat != (rule or row.repeat):
            rule = repeats.rule_since(row, self._repeat, clock.now())
        trace = self._trace if self._asks_for_run else None
        if before is None:
            return None, PendingRequest(due, _stored(self._own), rule, trace, self._urgent)
        attributes = {**before.attributes, **_stored(self._merged(row, before.attributes))}
        due = due if self._debounce else min(due, before.due_time)
        trace, urgent = before.trace if before.asks_for_run else trace, self._urgent or before.urgent
        return before, PendingRequest(due, attributes, rule, trace, urgent)

    def _begin_anew(self, row: T) -> Merged[T]:
        if self._is_over or (self._repeat is not None and self._repeat == row.repeat and not self._asks_for_run):
            return Merged(row, "merged")  # its rule has ended, and does not begin again
        self._effect = "restarted"
        due, changes = self._new.row.due_time, self._own
        text = self._trace
        if self._repeat is not None or row.repeat is not None:
            turn = None if self._repeat is None else repeats.first_turn(self._repeat, due)
            changes = {**changes, **repeats.begun_anew(row, turn, due)}
        trace: Any = TaskRow.trace, None if text is None else {STRING: text}
        changes = {**changes, "trace": trace}
        check_row_size(row, {attribute.attr_name: value for attribute, value in changes.values()})
        token, now = new_token(above=row.lock), clock.now()
        if row.expire_time is not None:
            self._kept = True
            try:
                keep(self._statements.model, row, token, _OPERATION)
            except TaskNotFoundError:  # its time to live has ended, and DynamoDB has not deleted the row yet
                changes = {**changes, "data": (self._statements.model.data, None)}
        merged = self._send(row, changes, anew(token, row), now=now, due=due)
        self._kept = False
        return merged

    @property
    def _trace(self) -> str | None:
        return cast("str | None", _content(self._new.item.get("trace")))

    @property
    def _own(self) -> Changes:
        """The request's attributes in stored form, without defaults and without `data`, which all runs keep."""
        own, values = self._statements.model.tracker.own_attributes, self._new.changes
        return {name: values.get(name, (own[name], None)) for name in self._given if name != "data"}

    def _merged(self, row: T, waiting: Item) -> Changes:
        """Call the user's function, if there is one, with the waiting request, and return its changes."""
        if self._function is None:
            return {}
        view = load(type(row), {**row._row_state.stored, **waiting})
        result = self._function(view, self._given)
        name = f"{type(row).__name__} {row.task_id!r}"
        if result is not None:
            raise TypeError(
                f"merge of {name} returned {result!r}: it changes the task that it is given, and returns None"
            )
        try:
            changes = changes_of(view)
            if "data" in changes:
                raise TypeError(f"merge changed data of {name}: keep the request in attributes of your own")
            for attribute_name, (attribute, value) in changes.items():
                check(type(row).__name__, attribute_name, attribute, value)
        except ValueNotStorableError as error:
            error.task_id = row.task_id
            raise
        return changes

    def _send(
        self,
        row: T,
        changes: Changes,
        values: Mapping[str, Any],
        *,
        now: datetime | None = None,
        due: datetime | None = None,
    ) -> Merged[T]:
        """Send a write, on condition that the row has not changed. A new round begins `now`."""
        statements = self._statements
        if "expire_time" in changes:
            renew(statements.model, row, _content(changes["expire_time"][1]))
        tokens = [*(row.request_tokens or ()), self._token][-_KEPT_TOKENS:]
        merge = merging(statements, self._effect, row, changes, values, tokens=tokens)
        if now is not None:
            merge.is_urgent = self._urgent or is_urgent(row)
            if self._urgent:
                merge.add(urgent=True)
            merge.time, merge.due, merge.changes = now, due, {**changes, **without_payloads(row)}
        try:
            response = statements.send(merge, row.task_id, shows_row=True)
        except PynamoDBConnectionError as error:
            raise_if_invalid(row, {**self._own, **changes}, error)
            raise
        self._unheard = None
        return self._merged_with(load(statements.model, response["Attributes"]))

    def _merged_with(self, row: T) -> Merged[T]:
        is_ignored = any(row.status == codes.ignored for codes in row.tracker.steps)
        return Merged(row, "ignored" if is_ignored and self._effect in ("merged", "queued") else self._effect)


def merging(
    statements: StepStatements[T],
    effect: str,
    row: TaskRow,
    changes: Changes,
    values: Mapping[str, Any],
    *,
    tokens: Sequence[str],
) -> Transition:
    """Store a request in the row that was read: in its attributes, in `queued`, or as a new round.

    A `due_time` in the values moves the due time of a pending task.
    """
    stored, is_anew = row._row_state.stored, effect == "restarted"
    merge = Transition("merge", statements.codes.pending if is_anew else None)
    if effect == "queued":
        runs = has_parts() if "checkpoints" in stored else cannot_take(statements.codes)
        merge.add(keeps_request() if "queued" in stored else runs, when.not_cancelled())
    elif is_anew:
        merge.add(when.at(END), when.later_token())
    else:
        merge.add(can_take(statements.codes), has_no_parts())
    if "due_time" in values:
        merge.add(when.at(statements.codes.pending))
    if "due_time" in values or "repeat" in changes:  # another rule counts from the turn that was read
        merge.add(due_as_seen(), seen={"seen_due": clock.stamp(row.due_time)})
    merge.add(
        when.requests_as_seen(is_there="request_count" in stored),
        when.same_life(),
        seen={"seen_creation": row.creation},
    )
    for name, (attribute, _) in changes.items():
        before = stored.get(attribute.attr_name)
        merge.add(value_seen(name, attribute.attr_name, None if before is None else next(iter(before))))
        if before is not None:
            merge.seen[f"seen {name}"] = next(iter(before.values()))
    merge.add(
        when.known_format(),
        request_count=(row.request_count or 0) + 1,
        request_tokens=Stored([{STRING: each} for each in tokens]),
    )
    merge.seen["seen_asked"] = str(row.request_count or 0)
    merge.values |= values
    merge.changes, merge.returns_row = changes, True
    return merge


def anew(token: str, row: TaskRow) -> dict[str, Any]:
    """Return the attributes by which a finished task begins a new round at this step, its first one."""
    removed = {**dict.fromkeys(("queued", "expire_time", "release_count")), **WAITS, **of_round(row)}
    return {"lock": token, "round": Same("lock"), "attempt": ZERO, **removed}


def _stored(changes: Changes) -> Item:
    """Return changes in the form of `queued`: by stored names, with null for an attribute to remove."""
    return {attribute.attr_name: value or {NULL: True} for attribute, value in changes.values()}


def _content(value: Mapping[str, Any] | None) -> Any:
    return None if value is None else next(iter(value.values()))
