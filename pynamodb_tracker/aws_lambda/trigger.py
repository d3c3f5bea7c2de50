"""What invokes a function: the shape of its events, and how it is answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from pynamodb_tracker.arguments import shown
from pynamodb_tracker.aws_lambda.event import (
    Record,
    UnreadableEventError,
    kinesis_data,
    message_body,
    shape_of,
    whole_record,
)
from pynamodb_tracker.batch.batch import Outcome

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

    def over(self, defaults: Replies) -> Replies:
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
