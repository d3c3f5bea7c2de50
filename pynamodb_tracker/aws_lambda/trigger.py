"""What invokes a function: the shape of its events, the tasks that they are about, and how it is answered."""

import base64
import json
import logging
from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from pynamodb_tracker.arguments import check_task_id, shown
from pynamodb_tracker.batch.batch import Outcome
from pynamodb_tracker.exceptions import TrackerError

log = logging.getLogger("pynamodb_tracker")

TaskId = str | Callable[[Any], str]
"""Where a payload has the task id: a path of keys with dots between them, or a function that returns it."""


class UnreadableEventError(TrackerError, ValueError):
    """An event or a record is not what the handler expects; delivering it again would not help."""


@dataclass(frozen=True, slots=True)
class Record:
    """The part of an event that is about one task."""

    content: Any
    """What the trigger delivered, unchanged."""
    name: str = ""
    """The id by which a batch reports it as failed: a message id, or a sequence number."""
    group: str | None = None
    """The message group within which messages are processed in order."""


def read_task_id(where: TaskId, payload: object) -> str:
    """Return the task id that a payload has there; UnreadableEventError if it has none."""
    found = call_on(payload, "task_id", where) if callable(where) else _value_at(where, payload)
    try:
        return check_task_id(found)
    except (TypeError, ValueError) as error:
        raise UnreadableEventError(f"a task id is text of 1 to 1024 bytes, not {shape_of(found)}") from error


def call_on(value: object, name: str, function: Callable[[Any], Any]) -> Any:
    """Call the user's function `name` with a value; UnreadableEventError if it raises."""
    try:
        return function(value)
    except UnreadableEventError:
        raise
    except Exception as error:  # its message may contain a value
        log.debug("%s raised", name, exc_info=True)
        raise UnreadableEventError(
            f"{name} raised {type(error).__name__} for {shape_of(value)}; its message is logged at level DEBUG"
        ) from error


def _value_at(path: str, payload: object) -> object:
    found = payload
    for key in path.split("."):
        if not (isinstance(found, Mapping) and key in found):
            raise UnreadableEventError(f"there is no key {key!r}, of the path {path!r}, in {shape_of(found)}")
        found = found[key]
    return found


def shape_of(value: object) -> str:
    """Describe a payload for the log: its shape only, because its values may be confidential."""
    if isinstance(value, Mapping):
        return f"an object with {shown(sorted(map(str, value)))}" if value else "an empty object"
    size = f" of length {len(value)}" if isinstance(value, Sized) else ""
    return f"a {type(value).__name__}{size}"


def whole_record(record: Any) -> Any:
    """Return the record itself as the payload."""
    return record


def message_body(record: Mapping[str, Any]) -> Any:
    """Return the body of an SQS message, read as JSON."""
    return json.loads(record["body"])


def kinesis_data(record: Mapping[str, Any]) -> Any:
    """Return the data of a Kinesis record, read as JSON."""
    return json.loads(base64.b64decode(record["kinesis"]["data"], validate=True))


TriggerName = Literal["direct", "async", "eventbridge", "sqs", "kinesis", "dynamodb"]
"""direct: a caller waits for the answer, such as a state machine of Step Functions. async: Lambda retries twice, and
then sends the event to a dead-letter queue or a destination; eventbridge does that, too. sqs, kinesis and dynamodb
(streams of tables) deliver batches of records."""

Reply = Literal["done", "error"]
"""done: the caller gets an answer, or the record is acknowledged. error: the error is raised, or the record is
redelivered."""

Reason = Literal["succeeded", "locked", "not_ready", "not_found", "ignored", "failed"]
"""Why a task did not succeed in this invocation; the names of the fields of Replies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replies:
    """How the caller is answered if a task did not succeed in this invocation; None is the default of the trigger."""

    succeeded: Reply | None = None
    """The task had succeeded before: the event was delivered twice, or late."""
    locked: Reply | None = None
    """Another worker holds the lock."""
    not_ready: Reply | None = None
    """The task is not due yet, or an earlier step of it has not succeeded."""
    not_found: Reply | None = None
    """There is no such task."""
    ignored: Reply | None = None
    """The task is ignored: it was before, or this attempt was its last one."""
    failed: Reply | None = None
    """This attempt failed, and there will be another one."""

    def __post_init__(self) -> None:
        """Refuse other values."""
        for field in fields(self):
            reply = getattr(self, field.name)
            if reply is not None and reply not in get_args(Reply):
                raise ValueError(f'{field.name} is "done" or "error", not {reply!r}')

    def over(self, defaults: "Replies") -> "Replies":
        """Return these replies, with the defaults for those that are None."""
        return Replies(
            **{field.name: getattr(self, field.name) or getattr(defaults, field.name) for field in fields(self)}
        )

    def to(self, outcome: Outcome, reason: Reason | None) -> Reply:
        """Return the reply to an outcome; one without a reason, such as a lost lock, is an error."""
        if outcome == "succeeded":
            return "done"
        return (reason and getattr(self, reason)) or "error"


_TO_CALLERS = Replies(
    succeeded="done", locked="error", not_ready="error", not_found="error", ignored="error", failed="error"
)
"""For a caller that sees the error and decides what to do."""
_TO_RETRIES = Replies(ignored="done").over(_TO_CALLERS)
"""For a trigger that delivers again after an error, which is no use for an ignored task."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """One kind of event source."""

    name: TriggerName
    replies: Replies
    payload: Callable[[Any], Any] = whole_record
    """Returns what the user's function gets of a record."""
    source: str | None = None
    """`eventSource` of the records of a batch; None if an event is about one task."""
    read: Callable[[Any], Record] = Record
    """Returns the Record for one record of a batch, or for the whole event."""
    is_stream: bool = False
    """Whether all records from the first failed one on are redelivered."""

    @property
    def is_batch(self) -> bool:
        """Whether an event has several records, and the answer names those that failed."""
        return self.source is not None

    def records(self, event: object) -> list[Record]:
        """Return the records of an event; UnreadableEventError if this trigger has no such events."""
        if not self.is_batch:
            if self is _EVENTBRIDGE and not _is_of_eventbridge(event):
                raise self._refusal(event)
            return [self.read(event)]
        records = _records_in(event)
        if records is None or any(record.get("eventSource") != self.source for record in records):
            raise self._refusal(event)
        try:
            return [self.read(record) for record in records]
        except (KeyError, TypeError) as error:
            raise self._refusal(event) from error

    def _refusal(self, event: object) -> UnreadableEventError:
        return UnreadableEventError(f"this is not an event of the trigger {self.name!r}: {shape_of(event)}")


def _sqs_record(record: Mapping[str, Any]) -> Record:
    is_fifo = str(record.get("eventSourceARN")).endswith(".fifo")  # a standard queue may have groups, but no order
    return Record(record, record["messageId"], record["attributes"]["MessageGroupId"] if is_fifo else None)


def _kinesis_record(record: Mapping[str, Any]) -> Record:
    return Record(record, record["kinesis"]["sequenceNumber"])


def _dynamodb_record(record: Mapping[str, Any]) -> Record:
    return Record(record, record["dynamodb"]["SequenceNumber"])


_DIRECT = Trigger("direct", _TO_CALLERS)
_EVENTBRIDGE = Trigger("eventbridge", _TO_RETRIES)
_BATCHES = (
    Trigger("sqs", _TO_RETRIES, message_body, "aws:sqs", _sqs_record),
    Trigger("kinesis", _TO_RETRIES, kinesis_data, "aws:kinesis", _kinesis_record, is_stream=True),
    Trigger("dynamodb", _TO_RETRIES, whole_record, "aws:dynamodb", _dynamodb_record, is_stream=True),
)
_ALL = {trigger.name: trigger for trigger in (_DIRECT, Trigger("async", _TO_RETRIES), _EVENTBRIDGE, *_BATCHES)}


def trigger_named(name: TriggerName) -> Trigger:
    """Return the trigger with that name."""
    if name not in _ALL:
        raise ValueError(f"trigger is one of {', '.join(map(repr, get_args(TriggerName)))}, not {shown(name)}")
    return _ALL[name]


def trigger_of(event: object) -> Trigger:
    """Return the trigger of an event, by the event's shape; any other shape is direct."""
    if _is_of_eventbridge(event):
        return _EVENTBRIDGE
    records = _records_in(event) or [{}]
    for trigger in _BATCHES:
        if all(record.get("eventSource") == trigger.source for record in records):
            return trigger
    return _DIRECT


def _is_of_eventbridge(event: object) -> bool:
    return isinstance(event, Mapping) and {"detail", "detail-type", "source"} <= event.keys()


def _records_in(event: object) -> list[Mapping[str, Any]] | None:
    """Return the Records of an event; None if it has none, or other values than objects among them."""
    records = event.get("Records") if isinstance(event, Mapping) else None
    if not isinstance(records, list) or not all(isinstance(record, Mapping) for record in records):
        return None
    return records
