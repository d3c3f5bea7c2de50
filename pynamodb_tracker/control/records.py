"""Two small items per use case: the list of schedules, and people's last commands.

They are only for display, so a write that fails is only logged. A schedule is listed before its row is written, so
readers skip ids without a repeating row.
"""

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pynamodb.constants import LIST, STRING, STRING_SET
from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item, Refused, get_items, send
from pynamodb_tracker.instrumentation import log, log_fields
from pynamodb_tracker.model import strict_json
from pynamodb_tracker.model.failure import clean, cut
from pynamodb_tracker.model.overflow import GROUP_OF, item_key
from pynamodb_tracker.model.row import TaskRow

MOST_SCHEDULES = 200  # ids in the list. A write costs a unit per KB of it
_MOST_COMMANDS = 20
_LONGEST = 120  # bytes per text


@dataclass(frozen=True, slots=True)
class Command:
    """A command that a person gave on the page or in the terminal."""

    time: datetime
    by: str
    did: str  # the verb, such as `reopened`
    about: str
    tasks: int  # how many tasks it changed, or 0 for a command about a step
    reason: str


def schedules_key(model: type[TaskRow]) -> Item:
    return item_key(model.tracker.use_case.name, "#schedules")


def commands_key(model: type[TaskRow]) -> Item:
    return item_key(model.tracker.use_case.name, "#commands")


def add_schedule(model: type[TaskRow], task_id: str) -> None:
    """List a repeating task in one request, unless the list is full."""
    values = {"id": {STRING: task_id}, "ids": {STRING_SET: [task_id]}, "most": {"N": str(MOST_SCHEDULES)}}
    room = "attribute_not_exists(#l) OR size(#l) < :most OR contains(#l, :id)"
    with suppress(Refused):
        _send(model, schedules_key(model), "SET #mark = :mark ADD #l :ids", room, values)


def remove_schedule(model: type[TaskRow], task_id: str) -> None:
    _send(model, schedules_key(model), "SET #mark = :mark DELETE #l :ids", "", {"ids": {STRING_SET: [task_id]}})


def schedules_in(item: Item) -> list[str]:
    return sorted(item.get("listed", {}).get(STRING_SET, ()))


def record(
    model: type[TaskRow], by: str, did: str, about: str, *, tasks: int = 0, reason: str = "", before: int = 0
) -> None:
    """Keep a person's command among the last 20, in one request, or two once there are 20.

    A command that continues, after it has changed `before` tasks, replaces its entry, in two requests.
    """
    texts = [cut(clean(text), _LONGEST) for text in (by, did, about, reason)]
    key, most = commands_key(model), {"most": {"N": str(_MOST_COMMANDS)}}
    if before and _has_continued(model, [*texts, before], [*texts, tasks]):
        return
    entry = {STRING: strict_json.dumps([clock.stamp(clock.now()), *texts, tasks], ensure_ascii=False)}
    try:
        appended = "SET #mark = :mark, #l = list_append(if_not_exists(#l, :none), :entries)"
        values = {"entries": {LIST: [entry]}, "none": {LIST: []}, **most}
        _send(model, key, appended, "attribute_not_exists(#l) OR size(#l) < :most", values)
    except Refused:
        _send(model, key, "SET #mark = :mark, #l[9999] = :entry REMOVE #l[0]", "", {"entry": entry})


def _has_continued(model: type[TaskRow], before: list[str | int], after: list[str | int]) -> bool:
    """Replace the newest entry that has these values. Return False if there is none, or it cannot be read."""
    with suppress(PynamoDBException, Refused, KeyError, TypeError, ValueError):  # as in `commands_in`
        [item] = get_items(model.tracker.connection(), [commands_key(model)])
        entries = [each[STRING] for each in item["listed"][LIST]]
        at = max(at for at, each in enumerate(entries) if json.loads(each)[1:] == before)
        entry = strict_json.dumps([*json.loads(entries[at])[:1], *after], ensure_ascii=False)
        values = {"entry": {STRING: entry}, "seen": {STRING: entries[at]}}
        _send(model, commands_key(model), f"SET #mark = :mark, #l[{at}] = :entry", f"#l[{at}] = :seen", values)
        return True
    return False


def commands_in(item: Item) -> list[Command]:
    found = []
    for entry in reversed(item.get("listed", {}).get(LIST, ())):
        with suppress(KeyError, TypeError, ValueError):  # another program may have changed it
            time, by, did, about, reason, tasks = json.loads(entry[STRING])
            found.append(Command(clock.parse(time), str(by), str(did), str(about), int(tasks), str(reason)))
    return found


def _send(model: type[TaskRow], key: Item, update: str, condition: str, values: dict[str, Any]) -> None:
    known = {"mark": {STRING: model.tracker.use_case.name}, **values}
    request = {
        "Key": key,
        "UpdateExpression": update,
        **({"ConditionExpression": condition} if condition else {}),
        "ExpressionAttributeNames": {"#l": "listed", "#mark": GROUP_OF},
        "ExpressionAttributeValues": {f":{name}": value for name, value in known.items()},
    }
    try:
        send(model.tracker.connection(), "UpdateItem", request)
    except PynamoDBException as error:
        text, fields = "cannot write the item %s of %s: %s", log_fields(model.tracker.use_case.name)
        log.warning(text, key["use_case_id"][STRING], model.__name__, error, extra=fields)
