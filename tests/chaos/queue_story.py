"""The queues in a short handmade history without a fault."""

from dataclasses import replace
from typing import Any

from tests.chaos.events import Event
from tests.chaos.final import Entry, Final, GroupLeft, QueueRow
from tests.chaos.runs import History

WORKER = "worker-0-1"
_FACTS: dict[str, Any] = {
    "waits": None,
    "parent": None,
    "fences": [],
    "done": [],
    "occurrences": [],
    "extras": [],
    "group": None,
    "group_number": None,
    "text": None,
    "asks": [],
    "again": [],
    "made_by": None,
    "signals": {},
    "awaits": [],
    "decided": None,
}
_ROWS: dict[str, dict[str, Any]] = {
    "index/key-0": {"marks": [(10, 1), (20, 2), (10, 3), (20, 4)], "done": ["a", "b", "c"]},
    "index/key-1": {"code": 13, "asks": ["d"], "again": ["e"]},
    "poll/bank": {"code": 10, "marks": [(10, 1), (10, 2), (10, 9)], "occurrences": [100.0, 101.0, 103.0]},
    "sale/s": {"code": 23, "marks": [(10, 1)]},
    "notice/s/10/0": {"code": 10, "made_by": 1},
    "notice/s/10/1": {"code": 10, "made_by": 1},
    "alert/s": {"code": 10},
    "report/r": {"marks": [(10, 1), (20, 2)]},
    "part/r/0": {"marks": [(10, 1)]},
    "part/r/1": {"marks": [(10, 1)]},
    "part/r/2": {"marks": [(10, 2)]},
    "bill/b": {"marks": [(10, 1), (20, 2)], "signals": {"paid": "x"}, "decided": {"paid": "x", "approved": None}},
    "member/m": {"marks": [(10, 1), (20, 2)], "group": "van", "group_number": 1},
    "member/n": {"marks": [(10, 1), (20, 2)], "group": "van", "group_number": 2},
}
_ASKS = {"a": "key-0", "b": "key-0", "c": "key-0", "d": "key-1", "e": "key-1"}


def told(history: History, kind: str, task: str, **facts: Any) -> Event:
    event = Event(float(len(history.queues)), WORKER, 10 * len(history.queues), kind, task, facts)
    history.queues.append(event)
    return event


def change_queue(final: Final, named: str, *, code: int | None = None, **facts: Any) -> None:
    row = final.queues[named]
    marks = facts.pop("marks", row.marks)
    final.queues[named] = replace(
        row, code=row.code if code is None else code, marks=marks, facts={**row.facts, **facts}
    )


def add_queues(history: History, final: Final) -> None:
    """Add tasks that were merged, repeated, followed up and joined."""
    for ask, key in _ASKS.items():
        told(history, "ask", f"index/{key}", ask=ask)
        told(history, "asked", f"index/{key}", ask=ask, effect="merged")
    for named in ("sale/s", "report/r", "bill/b", "member/m", "member/n"):
        told(history, "make", named)
        told(history, "made", named)
    for named, given in _ROWS.items():
        facts: dict[str, Any] = {"code": 1000, "marks": [], **given}
        code, marks = facts.pop("code"), facts.pop("marks")
        key = f"{named.partition('/')[0]}#{code}#0"
        final.queues[named] = QueueRow(Entry(named, key, "2026"), code, key, marks, _FACTS | facts)
        for step, fence in marks:
            _succeed(history, named, step, fence)
    final.groups["van"] = GroupLeft(None, (), [("m", 10, 1), ("m", 20, 2), ("n", 10, 1), ("n", 20, 2)])
    for value in ("x", "y"):
        told(history, "send", "bill/b", name="paid", value=value)
        told(history, "counted", "bill/b", name="paid", value="x")
    found = {"paid": "x", "approved": None}
    told(history, "settle", "bill/b", found=found, missing=["approved"], is_late=True)
    told(history, "collect", "report/r", found=dict.fromkeys(("r/0", "r/1", "r/2"), 1000), is_late=False, waits=None)
    for attempt, fence in enumerate(range(3, 7), 1):  # the occurrence at 102.0 has used its attempts
        _run(history, "poll/bank", 10, fence, "boom")
        told(
            history,
            "occurrence",
            "poll/bank",
            occurrence=102.0,
            early=-3.0,
            fence=fence,
            attempt=attempt,
            ending="boom",
        )


def _succeed(history: History, named: str, step: int, fence: int) -> None:
    _run(history, named, step, fence, "succeed")
    told(history, "done", named, step=step, fence=fence)


def _run(history: History, named: str, step: int, fence: int, ending: str) -> None:
    told(history, "try", named, step=step)
    told(history, "began", named, step=step, fence=fence, attempt=1, ending=ending)
