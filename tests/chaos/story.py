"""A short handmade history without a fault, for testing the checker."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.chaos.events import Event
from tests.chaos.final import Entry, Final, Row
from tests.chaos.ledger import Mark
from tests.chaos.pipeline import END, skipped_steps
from tests.chaos.queue_story import add_queues
from tests.chaos.records import Record
from tests.chaos.runs import History, Run, Write

TASK = "parcel-0"


@dataclass
class Story:
    events: list[Event] = field(default_factory=list)
    history: History = field(default_factory=History)
    final: Final = field(default_factory=lambda: Final({}, Counter(), {}, {}))

    @property
    def row(self) -> Row:
        return self.final.rows[TASK]

    def run(self, fence: int) -> Run:
        return next(run for run in self.history.runs if run.fence == fence)

    def end(self, fence: int) -> Write:
        end = self.run(fence).end
        assert end is not None
        return end

    def change(self, **facts: Any) -> None:
        facts.setdefault("skipped_steps", skipped_steps(TASK, facts.get("code", self.row.code)))
        row = replace(self.row, **facts)
        self.final = replace(
            self.final,
            rows={TASK: row},
            index=Counter([row.entry, *(each.entry for each in self.final.queues.values())]),
            counts={row.code: 1},
            queried={row.code: [TASK]},
        )

    @property
    def ledger(self) -> dict[str, Sequence[Mark]]:
        return self.final.ledger[TASK]

    def book(self, **accounts: Sequence[Mark]) -> None:
        self.ledger.update(accounts)

    def tell(self, run: int, kind: str, **facts: Any) -> None:
        """Add an event, a second after the previous one."""
        self.events.append(Event(float(len(self.events)), "worker-0-1", run, kind, TASK, facts))

    def retell(self) -> None:
        """Fold the events that were added since."""
        self.history = replace(History.of(self.events), queues=self.history.queues)

    def ran(self, step: str, fence: int, attempt: int, seen: list[Record], end: str = "succeed") -> None:
        """Add a run that commits progress, and saves a record unless it died before."""
        self.tell(fence, "claim", step=step)
        self.tell(fence, "claimed", step=step, fence=fence, attempt=attempt, late=-1.0)
        self.tell(fence, "seen", seen=[list(record) for record in seen], whole=True)
        self.tell(fence, "write", what="commit", records=0)
        self.tell(fence, "written", outcome="ok")
        self.tell(fence, "effect", held=True)
        self.tell(fence, "write", what="save", records=1)
        if end != "died":
            self.tell(fence, "written", outcome="ok")
            self.tell(fence, "write", what=end, records=1 if end == "succeed" else 0)
            self.tell(fence, "written", outcome="ok")


def sound() -> Story:
    """Return a task with all steps: by a worker that died, one that failed, and three that succeeded."""
    story, records = Story(), [(2, 1), (3, 1), (4, 1), (5, 1)]
    story.tell(0, "create")
    story.tell(0, "created")
    story.ran("collect", 1, 1, [], "died")
    story.ran("collect", 2, 2, [], "fail")
    story.ran("collect", 3, 3, records[:1])
    story.ran("weigh", 4, 1, records[:2])
    story.ran("deliver", 5, 1, records[:3])
    story.history = History.of(Event(*json.loads(json.dumps(list(vars(event).values())))) for event in story.events)
    entry = Entry(TASK, f"parcel#{END}#0", "2026-01-01T00:00:09")
    ledger: dict[str, Sequence[Mark]] = {
        "weigh": [(4, 0)],
        "deliver": [(5, 0)],
        "progress": [(fence, 1) for fence in range(1, 6)],
    }
    story.final = Final({TASK: _row(entry, records)}, Counter(), {}, {}, {}, {TASK: ledger})
    add_queues(story.history, story.final)
    story.change()
    return story


def _row(entry: Entry, records: list[Record]) -> Row:
    return Row(entry, END, 0, 5, [1], "2026-01-01T00:00:00", "2026-01-01T00:00:09", entry.status_key, records)
