"""Creates a task from an export, with its signals and its current round."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from pynamodb.constants import LIST, MAP, NUMBER, STRING, STRING_SET

from pynamodb_tracker import transitions
from pynamodb_tracker.dynamodb.connection import Item
from pynamodb_tracker.features.checkpoints import ROUND, result_text
from pynamodb_tracker.model.arguments import check_group, check_task_id
from pynamodb_tracker.model.cancelled import CancelRecord
from pynamodb_tracker.model.codecs import encode_parts
from pynamodb_tracker.model.failure import first_failure_text
from pynamodb_tracker.step.signal import signal_named
from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.task import Task
from pynamodb_tracker.writes.lock import new_token

OF_ROUND = ("checkpoints", "skipped_steps", "postpone_count", "first_failure", "cancelled", "missed_signals")
"""Attributes of a task's current round."""


def load_task(
    model: type[Task],
    /,
    *,
    task_id: str,
    awaited_signals: Collection[str] = (),
    signals: Mapping[str, Mapping[str, Any]] | None = None,
    due_time: datetime | None = None,
    **arguments: Any,
) -> Task:
    """Create a task from an `export`. With `awaited_signals`, it waits until `due_time`."""
    left = {name: arguments.pop(name) for name in OF_ROUND if name in arguments}
    if not (awaited_signals or signals or left):
        return model.create(task_id, due_time=due_time, **arguments)
    if "repeat" in arguments or ("group" in arguments and (awaited_signals or signals)):
        names = ", ".join([*(["awaited_signals"] if awaited_signals else []), *(["signals"] if signals else []), *left])
        raise ValueError(f"a task cannot be loaded with {names} and a group or a rule: leave one of them out")
    for name in (*awaited_signals, *(signals or {}), *left.get("missed_signals", ())):
        signal_named(model, name)
    state: State[Any] | None = arguments.pop("state", None)
    group = check_group(arguments.pop("group", None))
    code = None if state is None else model._code_to_begin_in(state, due_time, group)  # noqa: SLF001 - as `create` checks it
    also, due = _round_attributes(model, state, left), due_time
    if awaited_signals or signals:
        from pynamodb_tracker.features.signals import attributes_of_exported  # noqa: PLC0415 - few tasks have signals

        signals, due = attributes_of_exported(task_id, awaited_signals, signals or {}, due_time)
        also |= signals
    model.tracker.check_urgent(arguments.get("urgent", False))
    of_create = {name: arguments.pop(name) for name in ("trace", "urgent") if name in arguments}
    return transitions.create(model, check_task_id(task_id), code, due, arguments, group=group, also=also, **of_create)


def _round_attributes(model: type[Task], state: State[Any] | None, left: Mapping[str, Any]) -> Item:
    """Return the stored attributes of a round that begins with the task's creation."""
    creation = new_token()
    also: Item = {"creation": {STRING: creation}}
    if once := left.get("checkpoints"):
        parts = {
            f"{_number_of(model, step)}/{part}": result_text(result)
            for step, results in once.items()
            for part, result in results.items()
        }
        also["checkpoints"] = {MAP: encode_parts({ROUND: creation, **parts})}
    if steps := left.get("skipped_steps"):
        numbers = sorted(_number_of(model, step) for step in steps)
        also["skipped_steps"] = {LIST: [{NUMBER: str(number)} for number in numbers]}
    if "postpone_count" in left:
        also["postpone_count"] = {NUMBER: str(left["postpone_count"])}
    if "first_failure" in left:
        number = _number_of(model, next(iter(model._bound_steps)) if state is None else state.step)
        also["first_failure"] = {STRING: first_failure_text(left["first_failure"], number, creation)}
    if missed := left.get("missed_signals"):
        also["missed_signals"] = {STRING_SET: sorted(missed)}
    if cancelled := left.get("cancelled"):
        is_branch = state is not None and any(each.branch and state.code in each.own for each in model.tracker.steps)
        if state != model.cancelled and not is_branch:
            raise ValueError("a cancelled task has the state cancelled, or is at a branch step")
        time = datetime.fromisoformat(cancelled["time"])
        record = CancelRecord(_number_of(model, cancelled["step"]), time, cancelled["by"], cancelled["reason"])
        also["cancelled"] = {MAP: record.stored()}
    return also


def _number_of(model: type[Task], step: str) -> int:
    for codes in model.tracker.steps:
        if codes.step == step:
            return codes.pending
    raise ValueError(f"{model.__name__} has no step {step!r}")
