"""Event sources: how to recognize their events, find task ids in them (or raise UnreadableEventError), and respond."""

import base64
import json
from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NamedTuple, get_args
from urllib.parse import unquote_plus

from pynamodb_tracker.aws_lambda.http import is_request, read_request
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.instrumentation import log
from pynamodb_tracker.model.arguments import check_task_id, shown
from pynamodb_tracker.model.schema import SEPARATOR

TaskId = str | Callable[[Any], str]
"""Where a payload has the task id: keys and list indexes with dots between them, or a function."""

# In such paths: https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html
_URL_ENCODED = ".s3.object.key"


class UnreadableEventError(TrackerError, ValueError):
    """An event or a record is not as the handler expects. Delivering it again would not help."""

    entry = "in-aws-lambda"
    task_id: str | None = None  # if it could be read
    is_by_function = False  # the traceback is from a user's function, without its message


class Record(NamedTuple):
    """The part of an event that is about one task."""

    content: Any  # as delivered
    name: str = ""  # its id in the log: a message id, a sequence number, or a partition and an offset
    group: str | None = None  # the message group or partition, which is processed in order
    identifier: Mapping[str, Any] | None = None  # in `batchItemFailures`, if that is not the name


def is_path(where: object) -> bool:
    return isinstance(where, str) and all(where.split("."))


def check_place(name: str, where: object) -> None:
    if not (callable(where) or is_path(where)):
        raise TypeError(
            f'{name} is a path, such as "detail.order_id", or a function that gets the payload, not {shown(where)}'
        )


def found_at(name: str, where: str | Callable[[Any], object], payload: object) -> object:
    return value_at(where, payload) if isinstance(where, str) else call_on(payload, name, where)


def read_task_id(where: TaskId, payload: object) -> str:
    if isinstance(where, str) and where.startswith("Records.0.") and isinstance(payload, Mapping):
        records = payload.get("Records")  # of S3, in a message
        if isinstance(records, list) and len(records) > 1:
            raise UnreadableEventError(
                f"it has {len(records)} records, and {where!r} is only about the first one: write task_id as a "
                "function, or let the records come from their source, one by one"
            )
    found = found_at("task_id", where, payload)
    if isinstance(where, str) and isinstance(found, str) and f".{where}".endswith(_URL_ENCODED):
        found = unquote_plus(found)
    try:
        return check_task_id(found)
    except (TypeError, ValueError) as error:
        hint = ""
        if isinstance(where, str) and type(found) is int:
            steps = "".join(f"[{key if key.isdigit() else repr(key)}]" for key in where.split("."))
            hint = f": write task_id=lambda event: str(event{steps})"
        raise UnreadableEventError(f"a task id is text of 1 to 1024 bytes, not {shape_of(found)}{hint}") from error


def call_on(value: object, name: str, function: Callable[[Any], Any]) -> Any:
    try:
        return function(value)
    except UnreadableEventError:
        raise
    except Exception as error:  # its message may contain a value, its traceback lines do not
        log.debug("%s raised", name, exc_info=True)
        text = f"{name} raised {type(error).__name__} for {shape_of(value)}. Its message is logged at level DEBUG"
        unreadable = UnreadableEventError(text).with_traceback(error.__traceback__)
        unreadable.is_by_function = getattr(function, "__module__", None) != __name__
        raise unreadable from None


def value_at(path: str, payload: object) -> object:
    found = payload
    for key in path.split("."):
        if isinstance(found, Mapping) and key in found:
            found = found[key]
        elif isinstance(found, list) and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        else:
            raise UnreadableEventError(
                f"{key!r} of the path {path!r} is not in {shape_of(found)}: correct the path or the trigger"
            )
    return found


def shape_of(value: object) -> str:
    """Describe a payload's shape for the log, because its values may be confidential."""
    if isinstance(value, Mapping):
        return f"an object with {shown(sorted(map(str, value)))}" if value else "an empty object"
    size = f" of length {len(value)}" if isinstance(value, Sized) else ""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}{size}"


def _whole_record(record: Any) -> Any:
    return record


def _message_body(record: Mapping[str, Any]) -> Any:
    return json.loads(record["body"])


def _kinesis_data(record: Mapping[str, Any]) -> Any:
    return json.loads(base64.b64decode(record["kinesis"]["data"], validate=True))


def _notification_message(record: Mapping[str, Any]) -> Any:
    return json.loads(record["Sns"]["Message"])


def _kafka_value(record: Mapping[str, Any]) -> Any:
    value = record.get("value")  # a tombstone has none
    return None if value is None else json.loads(base64.b64decode(value, validate=True))


TriggerName = Literal["direct", "http", "async", "eventbridge", "s3", "sns", "sqs", "kinesis", "dynamodb", "kafka"]
"""direct: a caller waits for the response, such as Step Functions. http: a client of API Gateway, a function URL or a
load balancer waits. async, eventbridge, s3, sns: Lambda retries twice, and then sends the event to a dead-letter queue
or a destination. sqs, kinesis, dynamodb (streams of tables) and kafka (Amazon MSK and self-managed clusters) deliver
batches.
"""

Reply = Literal["ack", "raise"]
"""ack: the caller gets a response, or the record is acknowledged. raise: the caller gets an error, or the record is
redelivered.
"""

BatchReply = Literal["report", "raise"]
"""report: the response names the failed records, which needs ReportBatchItemFailures, and only these are redelivered.
raise: if a record failed, the whole batch is redelivered.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replies:
    """The replies to the caller if a task did not succeed in this invocation. None is the trigger's default.

    Examples:
        >>> handler = handles(Order.ship, task_id="order_id", replies=Replies(locked="ack"))
    """

    succeeded: Reply | None = None
    """The task had succeeded before: the event was delivered twice or late."""
    locked: Reply | None = None
    """Another worker holds the lock."""
    not_ready: Reply | None = None
    """The task is not due yet, or has not succeeded at an earlier step."""
    waits: Reply | None = None
    """The task waits for other tasks or its next occurrence. It becomes due by itself."""
    paused: Reply | None = None
    """The step is paused. A worker or a schedule can run the task later."""
    limited: Reply | None = None
    """The step's limit is reached. A worker or a schedule can run the task later."""
    not_found: Reply | None = None
    """The task does not exist."""
    mismatch: Reply | None = None
    """The task was started with a different payload before. See `must_match`."""
    ignored: Reply | None = None
    """The task is ignored at this step or an earlier one, perhaps since this attempt."""
    cancelled: Reply | None = None
    """The task was cancelled. Acknowledged by default, because redelivery does not help. HTTP clients get 410."""
    failed: Reply | None = None
    """This attempt failed, and the task will be retried."""
    released: Reply | None = None
    """The attempt was released, and does not count, because the function was stopped from outside."""
    unavailable: Reply | None = None
    """The table or the next step's queue could not be used, or the lock was lost."""
    batch: BatchReply | None = None
    """The reply to a batch with failed records. By default "report", but "raise" for kafka, because Lambda ignores a
    report and loses the records, unless the event source mapping is in provisioned mode:
    https://docs.aws.amazon.com/lambda/latest/dg/kafka-retry-configurations.html"""

    def __post_init__(self) -> None:
        for field in fields(self):
            reply, allowed = getattr(self, field.name), get_args(BatchReply if field.name == "batch" else Reply)
            if reply is not None and reply not in allowed:
                raise ValueError(f'{field.name} is "{allowed[0]}" or "{allowed[1]}", not {reply!r}')


def _reply_always(reply: Reply) -> Replies:
    return Replies(**{field.name: reply for field in fields(Replies) if field.name != "batch"}, batch="report")


_TO_CALLERS = replace(_reply_always("raise"), succeeded="ack", cancelled="ack")
_TO_CLIENTS = _reply_always("ack")  # with a status code, because an error would be a server error without a body
# Redelivery does not help these: the message would become a dead letter too early.
_TO_RETRIES = replace(_TO_CALLERS, waits="ack", paused="ack", ignored="ack")
# Acknowledging would break the order.
_TO_STREAMS = replace(_TO_RETRIES, paused="raise")


class Trigger(NamedTuple):
    name: TriggerName
    replies: Replies
    payload: Callable[[Any], Any] = _whole_record  # for the user's function
    sources: tuple[str, ...] = ()  # in its records, or empty if an event is about one task
    read: Callable[[Any], Record] = Record
    is_batch: bool = False  # the response names the records that failed
    is_stream: bool = False  # all records from the first failed one on are redelivered
    keeps_groups: bool = False  # a message waits until the earlier ones in its group are acknowledged

    def records(self, event: object) -> list[Record]:
        if not self.sources:
            if (self is _EVENTBRIDGE and not _is_of_eventbridge(event)) or (self is HTTP and not is_request(event)):
                raise self._refusal(event)
            return [self.read(event)]
        sources, records = _records_in(event) or ({""}, [])
        if not sources <= {*self.sources}:
            raise self._refusal(event)
        try:
            return [self.read(record) for record in records if not (self.is_stream and _is_beside_tasks(record))]
        except (AttributeError, KeyError, TypeError) as error:
            raise self._refusal(event) from error

    def _refusal(self, event: object) -> UnreadableEventError:
        return UnreadableEventError(f"this event is not from the trigger {self.name!r}: {shape_of(event)}")


def _is_beside_tasks(record: Mapping[str, Any]) -> bool:
    """Return whether an item in a task table's stream is not a task: only then its range key has a `#`."""
    keys = record.get("dynamodb", {}).get("Keys", {})
    return "task_id" in keys and SEPARATOR in keys.get("use_case_id", {}).get("S", "")


def _s3_record(record: Mapping[str, Any]) -> Record:
    return Record({"Records": [record]}, str(record["s3"]["object"].get("sequencer", "")))


def _sqs_record(record: Mapping[str, Any]) -> Record:
    is_fifo = str(record.get("eventSourceARN")).endswith(".fifo")  # a standard queue may have groups, but no order
    return Record(record, record["messageId"], record["attributes"]["MessageGroupId"] if is_fifo else None)


def _kinesis_record(record: Mapping[str, Any]) -> Record:
    return Record(record, record["kinesis"]["sequenceNumber"])


def _dynamodb_record(record: Mapping[str, Any]) -> Record:
    return Record(record, record["dynamodb"]["SequenceNumber"])


def _kafka_record(record: Mapping[str, Any]) -> Record:
    partition, offset = f"{record['topic']}-{record['partition']}", record["offset"]
    return Record(record, f"{partition}/{offset}", partition, {"partition": partition, "offset": offset})


DIRECT = Trigger("direct", _TO_CALLERS)
_EVENTBRIDGE = Trigger("eventbridge", _TO_RETRIES)
HTTP = Trigger("http", _TO_CLIENTS, read_request)
_WITH_RECORDS = (
    Trigger("s3", _TO_RETRIES, _whole_record, ("aws:s3",), _s3_record),
    Trigger(
        "sns", _TO_RETRIES, _notification_message, ("aws:sns",), lambda each: Record(each, each["Sns"]["MessageId"])
    ),
    Trigger("sqs", _TO_RETRIES, _message_body, ("aws:sqs",), _sqs_record, is_batch=True, keeps_groups=True),
    Trigger("kinesis", _TO_STREAMS, _kinesis_data, ("aws:kinesis",), _kinesis_record, is_batch=True, is_stream=True),
    Trigger("dynamodb", _TO_STREAMS, _whole_record, ("aws:dynamodb",), _dynamodb_record, is_batch=True, is_stream=True),
    Trigger(
        "kafka",
        replace(_TO_STREAMS, batch="raise"),
        _kafka_value,
        ("aws:kafka", "SelfManagedKafka"),
        _kafka_record,
        is_batch=True,
    ),
)
_ALL = {
    trigger.name: trigger for trigger in (DIRECT, HTTP, Trigger("async", _TO_RETRIES), _EVENTBRIDGE, *_WITH_RECORDS)
}


def trigger_named(name: TriggerName) -> Trigger:
    if name not in _ALL:
        raise ValueError(f"trigger is one of {', '.join(map(repr, get_args(TriggerName)))}, not {shown(name)}")
    return _ALL[name]


def trigger_of(event: object) -> Trigger:
    """Return the trigger that an event's shape tells, or else direct."""
    if _is_of_eventbridge(event):
        return _EVENTBRIDGE
    sources, _ = _records_in(event) or (set(), [])
    for trigger in _WITH_RECORDS if sources else ():
        if sources <= {*trigger.sources}:
            return trigger
    return HTTP if is_request(event) else DIRECT


def state_of_window(event: Mapping[str, Any]) -> dict[str, Any]:
    # In a tumbling window, Lambda needs it: https://docs.aws.amazon.com/lambda/latest/dg/services-kinesis-windows.html
    if "isFinalInvokeForWindow" in event:
        return {"state": event.get("state") or {}}
    return {}


def _is_of_eventbridge(event: object) -> bool:
    return isinstance(event, Mapping) and {"detail", "detail-type", "source"} <= event.keys()


def _records_in(event: object) -> tuple[set[str], list[Mapping[str, Any]]] | None:
    if not isinstance(event, Mapping):
        return None
    records, partitions = event.get("Records"), event.get("records")
    if "eventSource" in event and isinstance(partitions, Mapping):  # Kafka
        records = [each for found in partitions.values() for each in (found if isinstance(found, list) else [found])]
    if not isinstance(records, list) or not all(isinstance(record, Mapping) for record in records):
        return None
    sources = {str(record.get("eventSource") or record.get("EventSource")) for record in records}
    if "eventSource" in event:
        sources = {str(event["eventSource"])}
    elif not records and "isFinalInvokeForWindow" in event:  # a window can end without a record
        service = f"{event.get('eventSourceARN')}::".split(":")[2]
        sources = {f"aws:{service}"}
    return sources, records
