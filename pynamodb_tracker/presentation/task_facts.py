"""Facts about a task, even a damaged one, in words for people and as JSON for programs."""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from botocore.exceptions import BotoCoreError
from pynamodb import constants as kinds
from pynamodb.attributes import Attribute, JSONAttribute, UTCDateTimeAttribute

from pynamodb_tracker import clock
from pynamodb_tracker.control.item import Pause
from pynamodb_tracker.dynamodb.connection import endpoint_of
from pynamodb_tracker.exceptions import LockLostError, TaskNotFoundError
from pynamodb_tracker.features.checkpoints import parts_in
from pynamodb_tracker.model import hydration
from pynamodb_tracker.model.arguments import check_task_id
from pynamodb_tracker.model.data import DataAttribute
from pynamodb_tracker.model.failure import first_failure
from pynamodb_tracker.model.recent_ends import End
from pynamodb_tracker.model.references import Reference, parse, round_of
from pynamodb_tracker.model.repeat import LastRun
from pynamodb_tracker.model.row import Membership, TaskRow, damages_of, membership_of, readable
from pynamodb_tracker.model.status import Status, end_of
from pynamodb_tracker.presentation import exact_json
from pynamodb_tracker.presentation.errors import one_line
from pynamodb_tracker.presentation.text import between, count, moment, span, stamp, took_in_words
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.signal import signals_in
from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.task import Task

UNKNOWN = "unknown"

GAVE_UP = "gave up"

BY_PEOPLE = ("ignored", "cancelled", "unlocked", "reopened")  # entries in `errors` that are not failures

_LATE = timedelta(minutes=1)  # a task that has been due for longer is called late

BRANCH = " (branch)"


def steps_of(model: type[Task]) -> list[BoundStep[Any]]:
    return list(model._bound_steps.values())


def unfinished_states(step: BoundStep[Any]) -> tuple[State[Any], ...]:
    return step.pending, step.in_progress, step.failed, step.ignored


def location(model: type[Task]) -> str:
    """Return the table and its endpoint, if that is known."""
    name = str(model.Meta.table_name)
    try:
        endpoint = endpoint_of(model.tracker.connection().connection.client)
    except (BotoCoreError, ValueError):  # no region, or a Meta.host that is not a URL
        return name
    return f"{name} in memory" if model.tracker.table.is_in_memory else f"{name} at {endpoint}"


def name_of(state: State[Any]) -> str:
    """Return a state's name as commands take it: `ship.failed`, or `unknown.77` for an undeclared code."""
    return f"{state.step}.{state.status}" if state.status else end_of(state.code) or f"{UNKNOWN}.{state.code}"


def in_words(state: State[Any]) -> str:
    """Return a state's name for people, with "gave up" instead of `ignored`."""
    branch = BRANCH if is_branch(state.model, state.step) else ""
    name = f"{state.step} {GAVE_UP}" if state.status is Status.IGNORED else name_of(state)
    return f"{name}{branch}"


def choices_of(model: type[Task]) -> Mapping[str, Mapping[str, str]]:
    """Return the choices of each signal, by its stored name, as JSON values by label."""
    return {
        each.stored_name: {text: exact_json.dumps(value, ensure_ascii=False) for text, value in each.choices.items()}
        for each in signals_in(model)
    }


def is_branch(model: type[TaskRow], step: str) -> bool:
    return any(codes.branch for codes in model.tracker.steps if codes.step == step)


def read_task(model: type[Task], task_id: str) -> Task:
    """Load a task as far as it can be read, or raise TaskNotFoundError."""
    found = hydration.fill(model, hydration.rows(model, [check_task_id(task_id)]))
    if task_id not in found:
        raise TaskNotFoundError(f"{model.__name__} {task_id!r} does not exist", task_id=task_id)
    return readable(found[task_id])


def is_abandoned(task: Task) -> bool:
    """Return whether the task's lock expired longer ago than the clock margin."""
    expires: datetime | None = task.lock_expire_time
    in_progress = task.state.status is Status.IN_PROGRESS
    return in_progress and expires is not None and expires < clock.now() - task.tracker.margin


WAITS = ("turn", "signal", "children", "later")


def kind_of_wait(task: Task) -> str:
    """Return what a task waits for that is not due, one of WAITS. `later` is its due time."""
    if task.turn_due_time is not None:
        return "turn"
    return "signal" if task.awaited_signals else "children" if task.blockers else "later"


def is_only_due_later(task: Task) -> bool:
    """Return whether the task could start at its first step if it was due, so that it can be made due now."""
    first = steps_of(type(task))[0]
    due: datetime | None = task.due_time  # None if it is unreadable
    is_free = task.waits_for is None and task.group is None
    return task.state == first.pending and is_free and due is not None and due > clock.now()


def what_comes_next(
    task: Task, step: BoundStep[Any] | None, blocked_by: str | None = None, pause: Pause | None = None
) -> str:
    """Tell people what happens to the task next. `blocked_by` comes from its `Family`."""
    if step is None or end_of(task.status) == "cancelled":
        return f"nothing: {'it was cancelled' if end_of(task.status) else 'no step declares its state'}"
    paused = f"its step {str(pause).removeprefix(f'{pause.step} ')}" if pause else ""
    held = f", but {paused}" if paused else ""
    match task.state.status:
        case Status.SUCCEEDED | Status.IGNORED as status:
            return "nothing: it is done" if status is Status.SUCCEEDED else "waits for someone to reopen it"
        case Status.IN_PROGRESS if is_abandoned(task):
            is_spent = (task.attempt or 0) >= step.max_attempts
            then = "ignores it: no attempts left" if is_spent else "takes it over"
            return f"its lock expired, and the next run {then}{held}"
        case Status.IN_PROGRESS:
            since: datetime | None = task.update_time
            long = "" if since is None else f" for {span(clock.now() - since)}"
            return f"{task.worker or 'a worker'} has run it{long}"
        case _:
            if task.waits_for is not None:
                blocked = f"blocked by {blocked_by}, " if blocked_by and task.waits_for else ""
                return f"{blocked}waits for {task.waits_for}"
            due: datetime | None = task.due_time
            late = timedelta(0) if due is None else clock.now() - due
            when = "at a time that cannot be read" if due is None else between(due) if due > clock.now() else "now"
            is_late = f", due for {span(late)}" if late >= _LATE else ""
            return paused if paused and when == "now" else f"may start {when}{is_late}{held}"


# Tasks as JSON, for programs and for files that `export` writes and `load` reads.


def task_as_json(task: Task, *, with_data: bool = False) -> dict[str, Any]:
    """Return a task for programs. Damaged attributes are None, and `unread` lists them."""
    unread = damages_of(task)
    attributes = attributes_of(task, unread, with_data=with_data)
    own = {"last_error": task.last_error, **relations_as_json(task)}
    found = {**summary_as_json(task), **_stamp_times(own), "attributes": attributes}
    return found | ({"unread": {name: one_line(error) for name, error in unread.items()}} if unread else {})


def summary_as_json(task: Task) -> dict[str, Any]:
    names = ("attempt", "fence", "create_time", "update_time", "due_time", "worker", "lock_expire_time", "expire_time")
    own = {name: getattr(task, name) for name in names}
    return {"task_id": task.task_id, "state": name_of(task.state), **_stamp_times(own)}


def _stamp_times(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: stamp(value) if isinstance(value, datetime) else value for name, value in values.items()}


def relations_as_json(task: Task) -> dict[str, Any]:
    names = "group group_number turn_due_time blockers waits_for wait_until occurrence occurrence_count extra_time"
    names += " request_count trace urgent postpone_count"
    found = {name: getattr(task, name) for name in names.split()} | {
        "cancelled": cancelled_as_json(task),
        "repeat": rule_of(task),
        "queued": asked_again(task),
        **signals_of(task),
        "skipped_steps": skipped_steps(task),
        "parts_done": parts_done(task),
        "last_run": last_run_as_json(task),
        "missed_signals": sorted(task.missed_signals or ()),
        "recent_ends": [
            {"step": step, "start": stamp(each.start), "end": stamp(each.end), "worker": each.worker}
            for step, each in recent_ends(task)
        ],
        "occurrence": task.occurrence and task.occurrence.isoformat(),  # on the wall clock of the rule
    }
    for name in ("creator", "parent"):
        if (other := _read_reference(task, name)) is not None:
            found[name] = {"use_case": other.use_case, "task_id": other.task_id}
    return {name: value for name, value in found.items() if value is not None and value != []}


def cancelled_as_json(task: Task) -> dict[str, Any] | None:
    if (record := task.cancelled) is None:
        return None
    step = task.tracker.step_named_by(record.step)
    return {"step": step, "time": stamp(record.time), "by": record.by, "reason": record.reason}


def recent_ends(task: Task) -> list[tuple[str, End]]:
    """Return the task's last successes with their step names, the last one first."""
    names = {codes.pending: codes.step for codes in task.tracker.steps}
    return [(names.get(each.step, str(each.step)), each) for each in reversed(task.recent_ends or ())]


def signals_of(task: Task) -> dict[str, Any]:
    awaits, signals = task.awaited_signals, task.signals
    found: dict[str, Any] = {"awaited_signals": sorted(awaits)} if awaits else {}
    if signals:
        found["signals"] = {
            name: {"value": each.value, "time": stamp(each.time)}
            | {label: text for label, text in (("by", each.by), ("key", each.key)) if text is not None}
            for name, each in signals.items()
        }
    return found


def round_of_task(task: Task) -> dict[str, Any]:
    """Return the current round's state, for `load`. A repeating task begins a new round."""
    if task.repeat is not None:
        return {}
    names = {str(codes.pending): codes.step for codes in task.tracker.steps}
    once: dict[str, dict[str, Any]] = {}
    for number, part, text in _read_done_parts(task):
        if number in names:
            once.setdefault(names[number], {})[part] = exact_json.loads(text)
    found = {"checkpoints": once, "skipped_steps": skipped_steps(task), "postpone_count": task.postpone_count}
    found["cancelled"] = cancelled_as_json(task)
    found["missed_signals"] = sorted(task.missed_signals or ())
    first = task.first_failure
    numbers = (codes.pending for codes in task.tracker.steps if codes.step == task.state.step)
    if (time := next((first_failure(first, number, round_of(task)) for number in numbers), None)) is not None:
        found["first_failure"] = stamp(time)
    return {name: value for name, value in found.items() if value}


def relations_in_words(task: Task) -> Iterator[tuple[str, str]]:
    if task.group is not None:
        yield "group", f"{task.group}, {_MEMBERS[membership_of(task)]}"
    if task.urgent:
        yield "urgent", "workers take it before other tasks"
    yield from _rule_in_words(task)
    if (again := task.queued) is not None:
        if again.asks_for_run:
            with_what = ", with " + ", ".join(again.attributes) if again.attributes else ""
            yield "asked again", f"due {moment(again.due_time)}, after this run{with_what}"
        if again.repeat is not None:
            yield "new rule", f"{again.repeat}, after this run"
    yield from _round_in_words(task)
    for label, name in (("created by", "creator"), ("child of", "parent")):
        if (other := _read_reference(task, name)) is not None:
            yield label, f"{other.use_case} {other.task_id}"
    for step, each in recent_ends(task):
        took = took_in_words(each.end - each.start)
        yield "succeeded", f"{step}, {moment(each.end)}, in {took}, by {each.worker}"
    for name, text in (task.trace or {}).items():
        yield "trace", f"{name}: {text}"


def _round_in_words(task: Task) -> Iterator[tuple[str, str]]:
    if (record := task.cancelled) is not None:
        why = f": {record.reason}" if record.reason else ""
        step = task.tracker.step_named_by(record.step)
        yield "cancelled", f"at {step} by {record.by}, {moment(record.time)}{why}"
    if (postponed := task.postpone_count) is not None:
        yield "postponed", f"{postponed:,} times, without using up an attempt"
    if (released := task.release_count) is not None:
        yield "released", f"{count(released, 'time')} as its worker stopped, without using up an attempt"
    if done := parts_done(task):
        yield "parts done", f"{', '.join(done)} (a reopen with clear_checkpoints repeats them)"
    if (left_out := skipped_steps(task)) and end_of(task.status) != "cancelled":
        yield "passed over", ", ".join(left_out)
    if missed := task.missed_signals:
        yield "done without", f"{', '.join(sorted(missed))} (too late if sent now)"


def signals_in_words(task: Task) -> Iterator[tuple[str, str]]:
    for name, signal in (task.signals or {}).items():
        who = "" if signal.by is None else f" by {signal.by}"
        yield name, f"answered{who}, {between(signal.time)}: {exact_json.dumps(signal.value, ensure_ascii=False)}"


def _rule_in_words(task: Task) -> Iterator[tuple[str, str]]:
    if (repeat := task.repeat) is not None:
        yield "repeats", str(repeat)
        yield "occurrence", str(task.occurrence)
    if (extra := task.extra_time) is not None:
        yield "extra run", f"due {moment(extra)}, before its next occurrence"
    if task.last_run is not None:
        yield "last run", last_run_in_words(task.last_run)


_MEMBERS = {
    Membership.NONE: "",
    Membership.TURN: "has the turn",
    Membership.QUEUE: "waits for its turn",
    Membership.QUEUE_AND_OTHERS: "waits for its turn, and for other tasks",
    Membership.ENDED: "its turn has passed",
}


def skipped_steps(task: Task) -> list[str]:
    numbers = task.skipped_steps or ()
    return [codes.step for codes in task.tracker.steps if codes.pending in numbers]


def parts_done(task: Task) -> list[str]:
    """Return the current step's finished parts."""
    at = {
        str(codes.pending)
        for codes in task.tracker.steps
        if task.status in (codes.pending, codes.in_progress, codes.failed, codes.ignored)
    }
    return [part for number, part, _ in _read_done_parts(task) if number in at]


def _read_done_parts(task: Task) -> list[tuple[str, str, str]]:
    """Return each part's step number and name, and its result as JSON."""
    parts = [(*key.partition("/"), text) for key, text in parts_in(task, round_of(task)).items()]
    return [(number, part, text) for number, slash, part, text in parts if slash]


def rule_of(task: Task) -> Any:
    return None if task.repeat is None else exact_json.loads(task.repeat.to_json())


def last_run_in_words(last: LastRun) -> str:
    when = f"for {last.occurrence}" if last.occurrence is not None else f"asked for, due {clock.in_words(last.due)}"
    made = f", created {count(last.created)}" if last.created else ""
    again = f" at attempt {last.attempt}" if last.attempt > 1 else ""
    return f"{last.outcome} {between(last.ended)}{again}{made}, {when}"


def last_run_as_json(task: Task) -> dict[str, Any] | None:
    if (last := task.last_run) is None:
        return None
    occurrence = None if last.occurrence is None else last.occurrence.isoformat()
    return {**asdict(last), "occurrence": occurrence, "due": stamp(last.due), "ended": stamp(last.ended)}


def asked_again(task: Task) -> dict[str, Any] | None:
    if (again := task.queued) is None:
        return None
    due = {"due_time": stamp(again.due_time)} if again.asks_for_run else {}
    rule = {} if again.repeat is None else {"repeat": exact_json.loads(again.repeat.to_json())}
    trace = {} if again.trace is None else {"trace": exact_json.loads(again.trace)}
    attributes = {name: _from_stored(value) for name, value in again.attributes.items()}
    return {**due, "attributes": attributes, **rule, **trace}


def _read_reference(task: Task, name: str) -> Reference | None:
    text = getattr(task, name)
    try:
        return None if text is None else parse(text)
    except ValueError:
        return None


def attributes_of(task: Task, unread: dict[str, Exception], *, with_data: bool = True) -> dict[str, Any]:
    """Return the user's attributes as JSON. Unreadable ones are added to `unread`."""
    found = {}
    for name, attribute in task.tracker.own_attributes.items():
        is_data = isinstance(attribute, DataAttribute)
        if name in unread or (is_data and not with_data):
            continue
        try:
            value = _as_json(task, name, attribute)
        except LockLostError:  # the data was written again after the row was read
            raise
        except Exception as error:  # noqa: BLE001 - any value may be stored
            unread[name] = error
            continue
        if value is not None and (value or not is_data):
            found[name] = value
    return found


def _as_json(task: Task, name: str, attribute: Attribute[Any] | DataAttribute) -> Any:
    """Return an attribute as JSON, from its stored form, which has all digits of numbers."""
    value = getattr(task, name)
    if isinstance(attribute, DataAttribute):
        text = task._row_state.data_text or task._row_state.stored.get("data", {}).get(kinds.STRING)
        return value if text is None else exact_json.loads(text)
    if value is None:
        return None
    if isinstance(attribute, UTCDateTimeAttribute):
        return stamp(value)
    stored = task._row_state.stored[attribute.attr_name]
    if isinstance(attribute, JSONAttribute):
        return exact_json.loads(stored[kinds.STRING]) if exact_json.is_text_of(attribute) else value
    return _from_stored(stored)


def _from_stored(stored: dict[str, Any]) -> Any:
    """Return a stored value as JSON, with bytes as base64 and sets as sorted lists."""
    ((kind, value),) = stored.items()
    match kind:
        case kinds.NUMBER:
            number = Decimal(value)
            if not number.is_finite():
                raise ValueError(f"JSON has no {value}")
            return number
        case kinds.BINARY:
            return base64.b64encode(value).decode()
        case kinds.STRING_SET | kinds.NUMBER_SET | kinds.BINARY_SET:
            return sorted(_from_stored({kind[0]: each}) for each in value)
        case kinds.LIST:
            return [_from_stored(each) for each in value]
        case kinds.MAP:
            return {name: _from_stored(each) for name, each in value.items()}
        case _:
            return None if kind == kinds.NULL else value
