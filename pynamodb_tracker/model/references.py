"""References to tasks, and traces, which show where a task comes from."""

from collections.abc import Mapping
from typing import NamedTuple

from pynamodb_tracker import instrumentation
from pynamodb_tracker.instrumentation import log
from pynamodb_tracker.model import strict_json
from pynamodb_tracker.model.arguments import shown
from pynamodb_tracker.model.failure import cut
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.model.schema import SEPARATOR

MAX_TRACE_BYTES = 512  # as JSON, without `BY`; every write to the task pays for them
BY = "by"  # the trace entry that names the run that created the task
_LONGEST_BY = 200


class Reference(NamedTuple):
    """A task in one round. Recreating it or starting it over begins a new round."""

    use_case: str
    round: str  # in a `parent`, the claim's token
    task_id: str


def round_of(row: TaskRow) -> str:
    return row.round or row.creation or ""


def reference_to(row: TaskRow) -> str:
    return SEPARATOR.join((row.use_case_id, round_of(row), row.task_id))


def join_of(row: TaskRow) -> str:
    """Return the `parent` of the children for which a task waits."""
    return SEPARATOR.join((row.use_case_id, row.join_token or "", row.task_id))


def parse(text: str) -> Reference:
    parts = text.split(SEPARATOR, 2)  # only the task id may contain a `#`
    if len(parts) < 3:  # noqa: PLR2004
        raise ValueError(f"{shown(text)} is not a reference to a task: write use_case#round#task_id")
    return Reference(*parts)


def trace_text(trace: object, by: str | None = None) -> str:
    """Return a trace's stored form. `by` replaces the entry with that name, which does not count toward the limit."""
    if not isinstance(trace, Mapping) or not all(isinstance(text, str) for entry in trace.items() for text in entry):
        raise TypeError(f'trace must map text to text, such as {{"traceparent": "00-..."}}, not {shown(trace)}')
    entries = {name: text for name, text in trace.items() if name != BY}
    size = len(_json(entries)) if entries else 0
    if size > MAX_TRACE_BYTES:
        raise ValueError(f"trace has {size:,} bytes as JSON, more than {MAX_TRACE_BYTES}: leave entries out")
    by = by or trace.get(BY)
    return _json({**entries, BY: cut(by, _LONGEST_BY)} if by else entries).decode()


def text_of_new_trace(
    model: type[TaskRow], task_id: str, given: Mapping[str, str] | None, creator: TaskRow | None, by: str | None
) -> str | None:
    """Return a new task's trace in stored form, or None.

    It is the `given` one, or else the creator's. Entries from hooks do not replace given ones. If they do not all fit,
    none is stored.
    """
    inherited = (None if creator is None else creator.trace) or {}
    plain = None if given is None and creator is None else trace_text(inherited if given is None else given, by)
    entries = instrumentation.trace_of(model.tracker.use_case.name, task_id, given or ())
    if not entries:
        return plain
    try:
        return trace_text({**inherited, **entries} if given is None else {**entries, **given}, by)
    except ValueError as error:
        fields = instrumentation.log_fields(model.tracker.use_case.name, None, task_id)
        log.warning("entries from hooks for %s %r are not stored: %s", model.__name__, task_id, error, extra=fields)
        return plain


def _json(entries: Mapping[str, str]) -> bytes:
    return strict_json.dumps(entries, separators=(",", ":")).encode()
