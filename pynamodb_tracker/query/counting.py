"""How many tasks there are in a state, and in each state."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.pagination import pages
from pynamodb_tracker.model.row import StatusIndex, TaskRow
from pynamodb_tracker.query.state_scan import Walk
from pynamodb_tracker.query.window import INDEX, Window

__all__ = ["count", "counts"]


def count(model: type[TaskRow], code: int, window: Window) -> int:
    """Return how many tasks the index has in a state; eventually consistent, and it reads every entry it counts."""
    within = Walk(model, code, window)
    kept = _kept_since(model, code)
    found = (
        page
        for status_key in model.tracker.use_case.status_keys(code)
        for page in pages(
            model.tracker.connection().query,
            status_key,
            range_key_condition=window.on_due_time(within.last_due()),
            filter_condition=window.on_update_time(kept),
            index_name=INDEX,
            select="COUNT",
        )
    )
    return sum(page["Count"] for page in found)


def counts(model: type[TaskRow]) -> dict[int, int]:
    """Return how many tasks the index has by code, codes that no step declares included; reads the whole index once."""
    prefix = model.tracker.use_case.prefix
    scanned = pages(
        model.tracker.connection().scan,
        filter_condition=StatusIndex.status_key.startswith(prefix),
        attributes_to_get=["status_key", "update_time"],
        index_name=INDEX,
    )
    found = Counter[int]()
    for entry in (entry for page in scanned for entry in page["Items"]):
        code = int(entry["status_key"]["S"].removeprefix(prefix).partition("#")[0])
        kept = _kept_since(model, code)
        found[code] += kept is None or entry["update_time"]["S"] >= clock.stamp(kept)
    return found


def _kept_since(model: type[TaskRow], code: int) -> datetime | None:
    """Return since when a task must have been in an ended state to be there still; a time to live is in seconds."""
    keep_for = model.tracker.use_case.keep_for
    if keep_for is None or not model.tracker.ends_at(code):
        return None
    return clock.now().replace(microsecond=0) + timedelta(seconds=1) - keep_for
