"""Create a task, or merge a request into the existing one. Each call counts exactly once.

While the task waits at its first step, the row's attributes have the request. Otherwise, `queued` has it until the last
step's success, so a run begins after every call.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar, cast

from pynamodb.attributes import Attribute, UnicodeAttribute
from pynamodb.constants import ALL_NEW, BOOLEAN, MAP, NULL, NUMBER, STRING
from pynamodb.exceptions import PynamoDBConnectionError, UpdateError
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.operand import Path

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item, Refused
from pynamodb_tracker.dynamodb.error_codes import is_in_doubt
from pynamodb_tracker.dynamodb.limits import check
from pynamodb_tracker.dynamodb.retries import slept_before_retry
from pynamodb_tracker.exceptions import TaskNotFoundError, TaskNotReadyError, ValueNotStorableError
from pynamodb_tracker.features import repeats
from pynamodb_tracker.features.overflow import expire_again, remove_chunk_expiry, set_expire_time
from pynamodb_tracker.model.changes import Changes, changes_of, check_row_size, raise_if_invalid
from pynamodb_tracker.model.codecs import PendingRequest
from pynamodb_tracker.model.failure import add_note
from pynamodb_tracker.model.repeat import Repeat
from pynamodb_tracker.model.row import TaskRow, check_tracker_attributes, load
from pynamodb_tracker.model.status import END, Codes, Status, end_of
from pynamodb_tracker.writes import conditions as when
from pynamodb_tracker.writes.conditions import guard, parameter
from pynamodb_tracker.writes.creations import build_new_task, put, tracker_attributes
from pynamodb_tracker.writes.lock import new_token
from pynamodb_tracker.writes.refusals import build_error, check_format, kept_changing_error
from pynamodb_tracker.writes.transition import (
    ZERO,
    Same,
    StepStatements,
    Stored,
    Transition,
    get,
    is_urgent,
    load_checked,
)

T = TypeVar("T", bound=TaskRow)
T_co = TypeVar("T_co", bound=TaskRow, covariant=True)

Effect = Literal["created", "merged", "queued", "restarted", "ignored", "cancelled"]

_TRIES, _AT_ONCE = 16, 3
"""How often a call writes, and how often without a pause."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0  # seconds
_KEPT_TOKENS = 8
"""How many calls a row remembers, so that a call without a response can look for its token."""
_MOST_ERRORS = 3
"""How many requests per call may get no response."""
_OPERATION = "merge into"
_DOUBT = "it may have been merged, because a request got no response, and the row no longer shows it"


@guard
def can_take(codes: Codes) -> Condition:
    """Require a task that waits at its first step without a pending request."""
    return when.has_status(codes.pending, codes.failed, codes.ignored).condition & when.lacks("queued").condition


@guard
def cannot_take(codes: Codes) -> Condition:
    """Require a task that runs or is past its first step, without a pending request."""
    waits_or_ended = when.has_status(codes.pending, codes.failed, codes.ignored, END).condition
    return ~waits_or_ended & when.lacks("queued").condition


@guard
def has_parts() -> Condition:
    return TaskRow.checkpoints.exists() & when.not_ended().condition & when.lacks("queued").condition


@guard
def keeps_request() -> Condition:
    return TaskRow.queued.exists() & when.not_ended().condition


@guard
def value_seen(name: str, stored_name: str, kind: str | None) -> Condition:
    attribute = UnicodeAttribute(attr_name=stored_name)  # a stand-in, because the class may not declare it
    path = Path(attribute)
    return path.does_not_exist() if kind is None else path == parameter(attribute, f"seen {name}", kind)


@dataclass(frozen=True, slots=True)
class Merged(Generic[T_co]):
    """The effect of `create_or_merge`, and the task after it.

    `effect` is one of these:

    - `created`: the task did not exist.
    - `merged`: the task is pending at its first step, with the request's attributes.
    - `queued`: the task runs or is past its first step. After its success, it runs again.
    - `restarted`: the task had succeeded, and is pending again.
    - `ignored`: the task is ignored. The request is kept until the task is reopened.
    - `cancelled`: the task was cancelled. Nothing has changed.
    """

    task: T_co
    effect: Effect


class Merge(Generic[T]):
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
        self._statements, self._model, self._task_id = statements, statements.model, task_id
        self._repeat = repeat
        self._asks_for_run = repeat is None or due_time is not None
        """Whether it requests a run, which a call with only a rule does not."""
        self._is_over = repeat is not None and repeats.first_turn(repeat, clock.now()) is None
        """Whether the rule never occurs again."""
        also = tracker_attributes(self._model, task_id, urgent=urgent, trace=trace)
        rule = None if self._is_over else repeat
        self._new = build_new_task(self._model, task_id, None, due_time, attributes, also=also, repeat=rule)
        self._function = merge
        self._given = MappingProxyType({**attributes})
        self._debounce = debounce
        self._urgent = urgent
        self._token: str = self._new.row.creation
        """The row has this token once the request is stored, as `creation` or in `request_tokens`."""
        self._effect: Effect = "created"
        self._in_doubt: tuple[str | None, int] | None = None
        """The row's `creation` and `request_count` before a write that may still be applied."""
        self._errors: list[PynamoDBConnectionError] = []
        """Errors of requests without a response."""
        self._kept = False
        """Whether the time to live of a finished task's chunks was removed."""

    def carry_out(self) -> Merged[T]:
        """Send requests until one is applied. Raise if the outcome stays unknown."""
        try:
            return self._send_until_applied()
        except PynamoDBConnectionError as error:
            if self._in_doubt is not None:
                add_note(error, f"pynamodb_tracker: {_DOUBT}")
            raise
        finally:
            if self._kept:
                expire_again(self._model, self._task_id)

    def _send_until_applied(self) -> Merged[T]:
        row: T | None = get(self._model, self._task_id) if self._is_over else None
        for retry in range(_TRIES):
            failure: Exception = kept_changing_error(self._model, self._task_id, _OPERATION, retry + 1)
            try:
                return self._write(row)
            except Refused as refused:
                found = self._find(row, refused.item, repeated=refused.repeated)
            except PynamoDBConnectionError as error:
                self._errors.append(error)
                failure = error
                if not is_in_doubt(error):
                    raise
                found = self._find(row, None, repeated=True)
            if merged := self._find_result(found):
                return merged
            if len(self._errors) == _MOST_ERRORS:
                raise self._errors[-1]
            base = _FIRST_PAUSE if retry >= _AT_ONCE else 0.0
            if not slept_before_retry(max(0, retry - _AT_ONCE), base=base, longest=_LONGEST_PAUSE):
                raise failure
            if base:  # other callers are quicker, so the row is outdated after the pause
                found = get(self._model, self._task_id)
                if merged := self._find_result(found):
                    return merged
            row = found
        raise kept_changing_error(self._model, self._task_id, _OPERATION, retry + 1)

    def _find(self, before: T | None, item: Item | None, *, repeated: bool) -> T | None:
        """Return the row that refused a write, which may have been applied."""
        if repeated and before is not None:
            self._in_doubt = before.creation, before.request_count or 0
        return get(self._model, self._task_id) if item is None else load_checked(self._model, item)

    def _find_result(self, row: T | None) -> Merged[T] | None:
        """Return the result if the row has this call's token. Raise if the row no longer remembers such old calls."""
        if row is not None and (row.creation == self._token or self._token in (row.request_tokens or ())):
            self._in_doubt = None
            return self._build_result(row)
        if self._in_doubt is None:
            return None
        creation, asked = self._in_doubt
        if row is not None and row.creation == creation and (row.request_count or 0) <= asked + _KEPT_TOKENS:
            if (row.request_count or 0) != asked:
                self._in_doubt = None  # it was not applied, and will be refused
            return None
        raise self._errors[-1] if self._errors else UpdateError("Failed to update item: the first response was lost")

    def _write(self, row: T | None) -> Merged[T]:
        if self._new.replace(row) or row is None:
            if self._is_over:
                name = f"{self._model.__name__} {self._task_id!r}"
                raise ValueError(f"cannot create {name}: {self._repeat} never occurs again")
            self._effect = "created"
            put(self._new)
            return Merged(self._new.row, self._effect)
        check_format(row, _OPERATION)
        if row.group is not None:
            why = f"it is in group {row.group!r}, and each of its tasks runs once. Create a task per request"
            raise build_error(row, TaskNotReadyError, _OPERATION, why)
        if row.cancelled is not None:
            return Merged(row, "cancelled")
        if end_of(row.status):
            return self._restart(row)
        codes = self._statements.codes
        waits = row.status in (codes.pending, codes.failed, codes.ignored)
        if waits and row.queued is None and "checkpoints" not in row._row_state.stored:
            return self._merge_into_row(row)
        return self._queue(row)

    def _merge_into_row(self, row: T) -> Merged[T]:
        self._effect = "merged"
        changes = {**self._call_merge(row, {}), **self._expiry_changes(row), **self._urgency_changes(row)}
        due = self._due_for(row) if self._asks_for_run else None
        if self._repeat is not None or row.repeat is not None:
            of_rule, due = repeats.change_rule(row, self._repeat, due, clock.now())
            changes, due = {**changes, **of_rule}, None if row.awaited_signals else due
        if not changes and due is None:
            return self._build_result(row)
        check_row_size(row, {attribute.attr_name: value for attribute, value in changes.values()})
        return self._send(row, changes, {} if due is None else {"due_time": due})

    def _due_for(self, row: T) -> datetime | None:
        """Return a waiting row's new due time, or None to keep it."""
        if row.status != self._statements.codes.pending or "awaited_signals" in row._row_state.stored:
            return None
        due: datetime = max(self._new.row.due_time, row.update_time)
        if self._debounce:
            return None if due == row.due_time else due
        return None if row.due_time <= clock.now() or due >= row.due_time else due

    def _queue(self, row: T) -> Merged[T]:
        self._effect = "queued"
        before, again = self._pending_after(row)
        changes = self._expiry_changes(row)
        asks_for_nothing = before is None and again == PendingRequest(clock.NEVER, {})
        due = self._due_for(row) if self._asks_for_run and not self._debounce else None
        if due is not None and row.repeat is not None:  # it runs before the next occurrence
            of_rule, due = repeats.change_rule(row, None, due, clock.now())
            changes = {**changes, **of_rule}
        if (again == before or asks_for_nothing) and not changes and due is None:
            return self._build_result(row)
        stored = again.stored()
        check_row_size(row, {"queued": {MAP: stored}})
        times = {} if due is None else {"due_time": due}
        return self._send(row, changes, {"queued": Stored(stored), **times})

    def _expiry_changes(self, row: T) -> Changes:
        """Renew the time to live of an ignored task. Remove it if the task repeats, because it would be recreated."""
        if row.expire_time is None:
            return {}
        expiry = None if self._repeat is not None else row.tracker.expiry_of(row.status, clock.now())
        attribute = cast("Attribute[Any]", TaskRow.expire_time)
        return {"expire_time": (attribute, None if expiry is None else {NUMBER: expiry})}

    def _urgency_changes(self, row: T) -> Changes:
        if not self._urgent or is_urgent(row):
            return {}
        key = row.tracker.status_key(row.status, row.task_id, is_urgent=True)
        changes: dict[str, Any] = {"urgent": (TaskRow.urgent, {BOOLEAN: True})}
        return {**changes, "status_key": (TaskRow.status_key, {STRING: key})}

    def _pending_after(self, row: T) -> tuple[PendingRequest | None, PendingRequest]:
        """Return the request in `queued`, before and after adding this call's."""
        due = self._new.row.due_time if self._asks_for_run else clock.NEVER
        before = row.queued
        rule = None if before is None else before.repeat
        if self._repeat is not None and self._repeat != (rule or row.repeat):
            rule = repeats.start_rule(row, self._repeat, clock.now())
        trace = self._trace if self._asks_for_run else None
        if before is None:
            return None, PendingRequest(due, _as_queued(self._own_changes), rule, trace, self._urgent)
        attributes = {**before.attributes, **_as_queued(self._call_merge(row, before.attributes))}
        due = due if self._debounce else min(due, before.due_time)
        trace, urgent = before.trace if before.asks_for_run else trace, self._urgent or before.urgent
        return before, PendingRequest(due, attributes, rule, trace, urgent)

    def _restart(self, row: T) -> Merged[T]:
        if self._is_over or (self._repeat is not None and self._repeat == row.repeat and not self._asks_for_run):
            return Merged(row, "merged")  # its rule has ended, and does not start again
        self._effect = "restarted"
        due, changes, text = self._new.row.due_time, self._own_changes, self._trace
        if self._repeat is not None or row.repeat is not None:
            turn = None if self._repeat is None else repeats.first_turn(self._repeat, due)
            changes = {**changes, **repeats.turn_changes(row, turn, due)}
        trace: Any = TaskRow.trace, None if text is None else {STRING: text}
        changes = {**changes, "trace": trace}
        check_row_size(row, {attribute.attr_name: value for attribute, value in changes.values()})
        token, now = new_token(above=row.lock), clock.now()
        if row.expire_time is not None:
            self._kept = True
            try:
                remove_chunk_expiry(self._model, row, token, _OPERATION)
            except TaskNotFoundError:  # its time to live has ended, and DynamoDB has not deleted the row yet
                changes = {**changes, "data": (self._model.data, None)}
        merged = self._send(row, changes, restart_values(token, row), now=now, due=due)
        self._kept = False
        return merged

    @property
    def _trace(self) -> str | None:
        return cast("str | None", _value_in(self._new.item.get("trace")))

    @property
    def _own_changes(self) -> Changes:
        """The request's attributes in stored form, without defaults and `data`."""
        own, values = self._model.tracker.own_attributes, self._new.changes
        return {name: values.get(name, (own[name], None)) for name in self._given if name != "data"}

    def _call_merge(self, row: T, waiting: Item) -> Changes:
        """Call the user's function with the waiting request, and return its changes."""
        if self._function is None:
            return {}
        view = load(type(row), {**row._row_state.stored, **waiting})
        result = self._function(view, self._given)
        name = f"{type(row).__name__} {row.task_id!r}"
        if result is not None:
            raise TypeError(f"merge of {name} returned {result!r}: it must change the given task, and return None")
        try:
            changes = changes_of(view)
            if "data" in changes:
                raise TypeError(f"merge changed data of {name}: keep the request in your own attributes")
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
        """Write an unchanged row. `now` begins a new round."""
        statements = self._statements
        if "expire_time" in changes:
            # The token is not raised, because a reopen may come from a machine with a slower clock.
            set_expire_time(self._model, row.task_id, row.lock or row.creation, _value_in(changes["expire_time"][1]))
        merge = build_merge(statements, self._effect, row, changes, values, token=self._token)
        if now is not None:
            merge.is_urgent = self._urgent or is_urgent(row)
            if self._urgent:
                merge.add(urgent=True)
            merge.time, merge.due, merge.changes = now, due, {**changes, **repeats.payload_removals(row)}
        try:
            response = statements.send(merge, row.task_id, shows_row=True)
        except PynamoDBConnectionError as error:
            raise_if_invalid(row, {**self._own_changes, **changes}, error)
            raise
        self._in_doubt = None
        return self._build_result(load(statements.model, response["Attributes"]))

    def _build_result(self, row: T) -> Merged[T]:
        is_ignored = row.tracker.status_of(row.status) is Status.IGNORED
        return Merged(row, "ignored" if is_ignored and self._effect in ("merged", "queued") else self._effect)


def make_due(statements: StepStatements[T], row: T) -> T | None:
    """Make a task due now that waits only for its due time, and return it. Return None if the row has changed.

    Its attributes stay. A repeating task runs once more, before its next occurrence.
    """
    stored, now = check_tracker_attributes(row)._row_state.stored, clock.now()
    changes: Changes = {}
    due: datetime = max(now, row.update_time)
    if row.repeat is not None:
        changes, _ = repeats.change_rule(row, None, due, now)
    effect = "merged" if {"queued", "checkpoints"}.isdisjoint(stored) else "queued"
    token = new_token(above=row.lock)
    write = build_merge(statements, effect, row, changes, {"due_time": due}, token=token)
    write.add(when.lacks("blockers"), when.lacks("awaited_signals"))
    try:
        response = statements.send(write, row.task_id)
    except Refused:  # perhaps by itself, after a lost response
        found = get(statements.model, row.task_id)
        return found if found is not None and token in (found.request_tokens or ()) else None
    return load(statements.model, response["Attributes"])


def build_merge(
    statements: StepStatements[T],
    effect: str,
    row: TaskRow,
    changes: Changes,
    values: Mapping[str, Any],
    *,
    token: str,
) -> Transition:
    """Store a request in the row that was read: in its attributes, in `queued`, or as a new round."""
    stored, restarts = row._row_state.stored, effect == "restarted"
    merge = Transition("merge", statements.codes.pending if restarts else None)
    if effect == "queued":
        runs = has_parts() if "checkpoints" in stored else cannot_take(statements.codes)
        merge.add(keeps_request() if "queued" in stored else runs, when.lacks("cancelled"))
    elif restarts:
        merge.add(when.has_status(END), when.later_token())
    else:
        merge.add(can_take(statements.codes), when.lacks("checkpoints"))
    if "due_time" in values:
        merge.add(when.has_status(statements.codes.pending))
    if "due_time" in values or "repeat" in changes:  # another rule counts from the turn that was read
        merge.add(when.seen("due_time"), seen={"seen_due_time": clock.stamp(row.due_time)})
    merge.add(when.seen("request_count", is_there="request_count" in stored), when.same_life())
    merge.seen |= {"seen_creation": row.creation, "seen_request_count": str(row.request_count or 0)}
    for name, (attribute, _) in changes.items():
        before = stored.get(attribute.attr_name)
        merge.add(value_seen(name, attribute.attr_name, None if before is None else next(iter(before))))
        if before is not None:
            merge.seen[f"seen {name}"] = next(iter(before.values()))
    tokens = [*(row.request_tokens or ()), token][-_KEPT_TOKENS:]
    merge.add(
        when.known_format(),
        request_count=(row.request_count or 0) + 1,
        request_tokens=Stored([{STRING: each} for each in tokens]),
    )
    merge.values |= values
    merge.changes, merge.returns = changes, ALL_NEW
    return merge


def restart_values(token: str, row: TaskRow) -> dict[str, Any]:
    """Return the attributes with which a finished task begins a new round."""
    removed = {**dict.fromkeys(("queued", "expire_time", "release_count")), **repeats.round_removals(row)}
    return {"lock": token, "round": Same("lock"), "attempt": ZERO, **removed}


def _as_queued(changes: Changes) -> Item:
    """Return changes in the form of `queued`: by stored name, with null for an attribute to remove."""
    return {attribute.attr_name: value or {NULL: True} for attribute, value in changes.values()}


def _value_in(value: Mapping[str, Any] | None) -> Any:
    return None if value is None else next(iter(value.values()))
