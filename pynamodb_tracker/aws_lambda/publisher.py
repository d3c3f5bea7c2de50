"""Publishes tasks' transitions on an EventBridge bus, from their table's stream."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, cast

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from pynamodb_tracker import clock
from pynamodb_tracker.aws_lambda.invocation import LambdaContext, RunningInvocation
from pynamodb_tracker.aws_lambda.trigger import UnreadableEventError, trigger_named
from pynamodb_tracker.dynamodb.error_codes import got_no_response
from pynamodb_tracker.dynamodb.retries import ending_with, slept_before_retry
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.instrumentation import log
from pynamodb_tracker.model import strict_json
from pynamodb_tracker.model.arguments import shown
from pynamodb_tracker.model.failure import ABANDONED, Failure
from pynamodb_tracker.model.failure_log import failures_in_row
from pynamodb_tracker.model.row import readable
from pynamodb_tracker.model.status import Status, end_of
from pynamodb_tracker.task.task import Task

_MOST = 10  # entries per request: https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutEvents.html
_LONGEST_TYPE = 128
_TRIES = 4
_CONFIG = Config(connect_timeout=2, read_timeout=4, retries={"total_max_attempts": 2, "mode": "standard"})
_TIME_TO_PUT = timedelta(seconds=15)  # the longest request without a response
_OF_COMMANDS = {"ignored", "unlocked", "reopened", "skipped"}  # types of entries in `errors` that are not failures
_CAME_OR_WENT = {"INSERT": "created", "REMOVE": "deleted"}
_MOVED = ("status", "update_time", "fence")  # every transition changes one of these, and nothing else does
_WITH_ERROR = {"failed", "ignored", "cancelled", "skipped"}

BatchResponse = dict[str, list[dict[str, str]]]  # the first record to redeliver, with all later ones


def event_publisher(
    model: type[Task], *, bus: str, source: str = "pynamodb_tracker"
) -> Callable[[Any, LambdaContext | None], BatchResponse]:
    """Make a Lambda handler for a table's stream that publishes an event for each task's transitions.

    The `detail-type` names the step and the transition, as in `ship ignored`: created, in_progress, succeeded, failed,
    released, unlocked, ignored, cancelled, skipped (an occurrence without an attempt left), reopened, restarted (after
    its end), deleted, expired, or changed (by a step that the class does not declare). The detail has `id`,
    `use_case_id`, `task_id`, `step`, `from`, `to`, `attempt`, `time`, `last_error` and `trace`, each of which may be
    null.

    The stream needs NEW_AND_OLD_IMAGES. Each event is published at least once, always with the same `detail.id`, its
    record's sequence number, which grows from a task's event to the next. That is sent only after the bus accepted this
    one. The response to a batch names the first record that the bus refused. If that is the very first event, the
    handler raises an error.

    Args:
        model: A use case, or a table for all its imported use cases.
        bus: The name or the ARN of an EventBridge bus.
        source: The events' `source`.

    Raises:
        TypeError: An argument has the wrong type.

    Examples:
        >>> publish = event_publisher(AppTask, bus="orders")
    """
    given: object = model
    if not (isinstance(given, type) and issubclass(given, Task) and given.tracker.has_table):
        raise TypeError(f"this takes a table's or a use case's class, not {shown(given)}")
    texts: dict[str, object] = {"bus": bus, "source": source}
    for name, text in texts.items():
        if not (isinstance(text, str) and text):
            raise TypeError(f"{name} is text, not {shown(text)}")
    target = _Bus(model, bus, source)

    def handler(event: Any, context: LambdaContext | None) -> BatchResponse:
        invocation, published = RunningInvocation(context), 0
        for request in _requests(_read_events(model, event)):
            left, why = request, "no time is left in this invocation"
            if not published or invocation.has_time_for(_TIME_TO_PUT):
                with ending_with(invocation.deadline):
                    left, why = target.put(request)
            if left:
                message = f"{len(left)} events could not be published on {bus}: {why}"
                if not published and left[0] is request[0]:
                    raise TrackerError(message)
                log.error("%s. The stream will redeliver its records from %s on", message, left[0].id)
                return {"batchItemFailures": [{"itemIdentifier": left[0].id}]}
            published += len(request)
        return {"batchItemFailures": []}

    return handler


@dataclass(frozen=True, slots=True)
class _Event:
    id: str
    task: tuple[str, str]
    entry: Mapping[str, Any]  # in the request


class _Bus:
    """An EventBridge bus. The first request creates its client."""

    def __init__(self, model: type[Task], name: str, source: str) -> None:
        self._model, self._name = model, name
        self._about = {"EventBusName": name, "Source": source}

    @cached_property
    def _client(self) -> Any:
        of_table = self._model.tracker.table.connection().connection
        found = re.match(r"arn:[a-z-]+:events:([a-z0-9-]+):", self._name)
        return of_table.session.create_client("events", found[1] if found else of_table.region, config=_CONFIG)

    def put(self, events: list[_Event]) -> tuple[list[_Event], str]:
        """Publish up to ten events, with retries. Return the refused ones, and why."""
        retry = 0
        while True:
            has_no_response = False
            try:
                entries = [{**self._about, **each.entry} for each in events]
                responses = self._client.put_events(Entries=entries)["Entries"]
            except (BotoCoreError, ClientError) as error:
                why, has_no_response = " ".join(str(error).split()), got_no_response(error)
            else:
                refused = [pair for pair in zip(events, responses, strict=True) if "ErrorCode" in pair[1]]
                events = [each for each, _ in refused]
                why = ", ".join(sorted({f"{each['ErrorCode']}: {each.get('ErrorMessage', '')}" for _, each in refused}))
            can_retry = events and not has_no_response and retry < _TRIES - 1
            if not (can_retry and slept_before_retry(retry, takes=_TIME_TO_PUT.total_seconds())):
                return events, why
            retry += 1


def _requests(events: Iterable[_Event]) -> Iterator[list[_Event]]:
    """Yield requests in order, each with one event per task, because the bus may refuse single events."""
    request: list[_Event] = []
    for event in events:
        if len(request) == _MOST or any(event.task == each.task for each in request):
            yield request
            request = []
        request.append(event)
    if request:
        yield request


def _read_events(model: type[Task], event: object) -> Iterator[_Event]:
    known = model.tracker.table.use_cases if model is model.tracker.table.owner else [model.tracker.use_case.name]
    for record in trigger_named("dynamodb").records(event):
        if record.content["dynamodb"]["Keys"].get("use_case_id", {}).get("S") in known:
            yield from _read_event(model, record.content)


def _read_event(model: type[Task], record: Mapping[str, Any]) -> Iterator[_Event]:
    """Yield a record's transition. A record that only saved, extended a lock or merged has none."""
    change, name = record["dynamodb"], record["eventName"]
    images = change.get("OldImage"), change.get("NewImage")
    if (images[0] is None) != (name == "INSERT") or (images[1] is None) != (name == "REMOVE"):
        raise UnreadableEventError("a record lacks an image: the stream needs the view type NEW_AND_OLD_IMAGES")
    old, new = (None if image is None else readable(model.from_raw_data(image)) for image in images)
    row = cast("Task", new or old)
    what, step = _CAME_OR_WENT.get(name, ""), row.state.step
    if old is not None and new is not None:
        if all(getattr(old, each) == getattr(new, each) for each in _MOVED):
            return
        what, step = _transition_between(old, new)
    step, time = step or "unknown", row.attribute_values.get("update_time") or clock.now()
    if new is None:
        time = datetime.fromtimestamp(change["ApproximateCreationDateTime"], UTC)
        if record.get("userIdentity", {}).get("principalId") == "dynamodb.amazonaws.com":
            what = "expired"
    was_running = old is not None and old.state.status is Status.IN_PROGRESS
    detail = {
        "id": change["SequenceNumber"],
        "use_case_id": row.use_case_id,
        "task_id": row.task_id,
        "step": step,
        "from": None if old is None else str(old.state),
        "to": None if new is None else str(new.state),
        "attempt": (old if old and was_running and what != "in_progress" else row).attempt,
        "time": time.isoformat(timespec="microseconds"),
        "last_error": row.last_error if what in _WITH_ERROR else None,
        "trace": row.trace,
    }
    entry = {"DetailType": f"{step} {what}"[-_LONGEST_TYPE:], "Detail": strict_json.dumps(detail), "Time": time}
    yield _Event(change["SequenceNumber"], (row.task_id, row.use_case_id), entry)


def _transition_between(old: Task, new: Task) -> tuple[str, str]:
    """Return the transition, and the step that the task left or entered. A success has changed the step already."""
    before, after, entry = old.state, new.state, _new_entry(old, new)
    if after.status is Status.IN_PROGRESS:
        return "in_progress", after.step
    if new.cancelled is not None and old.cancelled is None:
        return "cancelled", before.step
    if entry is not None:
        failed = "ignored" if after.status is Status.IGNORED else "failed"
        return entry.type if entry.type in _OF_COMMANDS else failed, entry.step
    if after.status in (Status.FAILED, Status.IGNORED):
        return str(after.status), before.step
    if before.status is Status.IN_PROGRESS:
        stays = before.step == after.step and old.round == new.round
        return "released" if stays and not end_of(after.code) else "succeeded", before.step
    is_reopened = before.status in (Status.FAILED, Status.IGNORED) or end_of(before.code) == "cancelled"
    return "reopened" if is_reopened else "restarted" if end_of(before.code) else "changed", after.step


def _new_entry(old: Task, new: Task) -> Failure | None:
    """Return the entry that this transition added to `errors`, if any."""
    known = {(entry.step, entry.attempt, entry.time, entry.type) for entry in failures_in_row(old)}
    newest = [each for each in failures_in_row(new)[-1:] if each.type != ABANDONED]  # which the next attempt stores
    return next((each for each in newest if (each.step, each.attempt, each.time, each.type) not in known), None)
