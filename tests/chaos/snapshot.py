"""Reads the tables at the end of a chaos run, without faults."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from pynamodb_tracker import TrackerError
from tests.chaos.final import Entry, Final, Row
from tests.chaos.ledger import Mark, account_in, marks
from tests.chaos.pipeline import END, IGNORED, USE_CASE, parcels
from tests.chaos.queue_rows import groups_of, left_of_queues, queue_row
from tests.chaos.queues import NAMES, Queues, queues_beside
from tests.chaos.records import is_whole, records
from tests.chaos.settings import Settings
from tests.chaos.slots import lost

INDEX = "status-index"
CONTROL = "#control"
LIMIT = "#limit"
SCHEDULES = "#schedules"
GROUP = "#group#member"
"""The range key of the groups' own rows. A leftover place in a queue is an unexpected item."""
PROJECTED = ("status", "attempt", "create_time", "update_time", "last_error")


def left(order: Any, queues: Queues) -> bool:
    """Return whether a task is unfinished, according to the small index, because this is asked repeatedly."""
    states = (state for state, number in order.counts().items() if number)
    return any(state.code not in {END, *IGNORED} for state in states) or left_of_queues(queues)


def snapshot(endpoint: str, settings: Settings) -> Final:
    """Read everything, strongly consistent where possible."""
    order = parcels(endpoint, settings)
    queues, of_queues = queues_beside(order, settings), dict[str, Any]()
    items, chunks = dict[str, Any](), defaultdict[str, list[str]](list)
    ledger = defaultdict[str, dict[str, Sequence[Mark]]](dict)
    for item in _scan(order):
        key, task_id = item["use_case_id"]["S"], item["task_id"]["S"]
        if key == USE_CASE:
            items[task_id] = item
        elif account := account_in(key):
            ledger[task_id][account] = marks(item)
        elif key in NAMES:
            of_queues[f"{key}/{task_id}"] = item
        elif key not in {GROUP, CONTROL, LIMIT, SCHEDULES} and key.partition("#")[0] not in NAMES:
            chunks[task_id].append(key)
    states = {state.code: state for state in order.counts()}
    queue_rows = {named: queue_row(queues, item, _entry(item)) for named, item in of_queues.items()}
    return Final(
        rows={task_id: _row(order, item) for task_id, item in items.items()},
        index=Counter(_entry(item) for item in _scan(order, index=INDEX)),
        counts={state.code: number for state, number in order.counts().items() if number},
        queried={code: _queried(state) for code, state in states.items()},
        chunks=dict(chunks),
        ledger=dict(ledger),
        queues=queue_rows,
        groups=groups_of(queues, queue_rows.values()),
        lost_slots=lost(order),
    )


def _row(order: Any, item: dict[str, Any]) -> Row:
    task_id = item["task_id"]["S"]
    try:
        task = order.get_task(task_id)
        found, whole = records(task), is_whole(task)
    except TrackerError:  # chunks of its data are missing, which is a violation; the rest is checked anyway
        found, whole = [], False
    return Row(
        entry=_entry(item),
        code=int(item["status"]["N"]),
        attempt=int(item["attempt"]["N"]),
        fence=int(item["fence"]["N"]),
        unfinished=[int(fence["N"]) for fence in item["unfinished"]["L"]],
        create_time=item["create_time"]["S"],
        update_time=item["update_time"]["S"],
        status_key=order.tracker.status_key(int(item["status"]["N"]), task_id, is_urgent="urgent" in item),
        records=found,
        whole=whole,
        skipped_steps=[int(number["N"]) for number in item.get("skipped_steps", {"L": ()})["L"]],
        of_round=[name for name in ("first_failure", "checkpoints", "postpone_count") if name in item],
    )


def _queried(state: Any) -> list[str]:
    try:
        return [task.task_id for task in state.query()]
    except TrackerError:  # of the same rows
        return []


def _entry(item: dict[str, Any]) -> Entry:
    projected = tuple((name, next(iter(item[name].values()))) for name in PROJECTED if name in item)
    key, task_id = item["use_case_id"]["S"], item["task_id"]["S"]
    named = task_id if key == USE_CASE else f"{key}/{task_id}"
    return Entry(named, item["status_key"]["S"], item["due_time"]["S"], projected)


def _scan(order: Any, index: str | None = None) -> Iterator[dict[str, Any]]:
    start = None
    while True:
        page = order.tracker.connection().scan(
            exclusive_start_key=start, index_name=index, consistent_read=index is None
        )
        yield from page["Items"]
        start = page.get("LastEvaluatedKey")
        if not start:
            return
