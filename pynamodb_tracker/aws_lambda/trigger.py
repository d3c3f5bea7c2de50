"""What invokes a function: how its events look, and how it is answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pynamodb_tracker.arguments import shown
from pynamodb_tracker.aws_lambda.event import Record, UnreadableEventError, decoded_data, described, json_body, whole
from pynamodb_tracker.aws_lambda.replies import Replies

__all__ = ["Trigger", "TriggerName", "named", "told_by"]

TriggerName = Literal["direct", "async", "eventbridge", "sqs", "kinesis", "dynamodb"]
"""direct: somebody waits for the answer, such as a state machine of Step Functions. async: Lambda tries again, twice,
and then gives the event to a dead-letter queue or a destination; eventbridge is that, too. sqs, kinesis and dynamodb
(streams of tables) deliver batches of records."""

_LISTENS = Replies(
    succeeded="done", locked="error", not_ready="error", not_found="error", ignored="error", failed="error"
)
"""Somebody hears of an error, and decides."""
_REPEATS = Replies(ignored="done").over(_LISTENS)
"""An error is an order to try again: of no use for what is ignored."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """A kind of events."""

    name: TriggerName
    replies: Replies
    payload: Callable[[Any], Any] = whole
    """What the user's function gets of a record."""
    source: str | None = None
    """`eventSource` of the records of a batch; None where an event is about one task."""
    read: Callable[[Any], Record] = Record
    """What makes a record of one of a batch, or of the whole event."""
    is_stream: bool = False
    """Whether records come again from the first failed one on."""

    @property
    def is_batch(self) -> bool:
        """Whether an event has records, and its answer says which of them failed."""
        return self.source is not None

    def records(self, event: object) -> list[Record]:
        """Return what an event is about; UnreadableEventError where it is none of this trigger."""
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
        return UnreadableEventError(f"this is no event of the trigger {self.name!r}: {described(event)}")


def _of_sqs(record: Mapping[str, Any]) -> Record:
    is_fifo = str(record.get("eventSourceARN")).endswith(".fifo")  # a standard queue may have groups, but no order
    return Record(record, record["messageId"], record["attributes"]["MessageGroupId"] if is_fifo else None)


def _of_kinesis(record: Mapping[str, Any]) -> Record:
    return Record(record, record["kinesis"]["sequenceNumber"])


def _of_dynamodb(record: Mapping[str, Any]) -> Record:
    return Record(record, record["dynamodb"]["SequenceNumber"])


_DIRECT = Trigger("direct", _LISTENS)
_EVENTBRIDGE = Trigger("eventbridge", _REPEATS)
_BATCHES = (
    Trigger("sqs", _REPEATS, json_body, "aws:sqs", _of_sqs),
    Trigger("kinesis", _REPEATS, decoded_data, "aws:kinesis", _of_kinesis, is_stream=True),
    Trigger("dynamodb", _REPEATS, whole, "aws:dynamodb", _of_dynamodb, is_stream=True),
)
_ALL = {trigger.name: trigger for trigger in (_DIRECT, Trigger("async", _REPEATS), _EVENTBRIDGE, *_BATCHES)}


def named(name: TriggerName) -> Trigger:
    """Return the trigger of that name."""
    if name not in _ALL:
        raise ValueError(f"trigger is one of {', '.join(map(repr, get_args(TriggerName)))}, not {shown(name)}")
    return _ALL[name]


def told_by(event: object) -> Trigger:
    """Return the trigger that an event is of, by its shape; a bare event is of a caller that waits."""
    if _is_of_eventbridge(event):
        return _EVENTBRIDGE
    records = _records_in(event) or [{}]
    return next(
        (each for each in _BATCHES if all(record.get("eventSource") == each.source for record in records)), _DIRECT
    )


def _is_of_eventbridge(event: object) -> bool:
    return isinstance(event, Mapping) and {"detail", "detail-type", "source"} <= event.keys()


def _records_in(event: object) -> list[Mapping[str, Any]] | None:
    """Return what an event has under Records, where each is an object."""
    records = event.get("Records") if isinstance(event, Mapping) else None
    if not isinstance(records, list) or not all(isinstance(record, Mapping) for record in records):
        return None
    return records
