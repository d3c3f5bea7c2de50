"""The state machine of tasks that are also asked for again: each request is in exactly one place until it is done."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from tests.machine.machine import MARGIN, TASKS, Machine, Row, Run, faults, urgent

END = 1000


@dataclass
class Asked:
    """What a task has been asked for, and has not done yet."""

    now: str = ""
    """What its next run, or the one that is under way, does."""
    again: str = ""
    """What the run after that does; nothing if there is to be none."""
    again_due: datetime | None = None
    again_urgent: bool = False
    done: str = ""
    """What its successes have done."""


def add(task: Any, new: Mapping[str, Any]) -> None:
    task.asked_for = f"{task.asked_for or ''}{new['asked_for']}"


class MergingMachine(Machine):
    """Asks for tasks, in whatever state they are."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[str, Asked] = {}

    def of(self, task_id: str) -> Asked:
        return self.asked.setdefault(task_id, Asked())

    @rule(
        task_id=st.sampled_from(TASKS),
        seconds=st.sampled_from([0, 0, 0, 0, 11]),
        later=st.sampled_from([False, False, True]),
        fault=faults,
        passes=st.integers(0, 1),
        urgent=urgent,
    )
    def ask(self, *, task_id: str, seconds: int, later: bool, fault: str, passes: int, urgent: bool) -> None:
        """Ask for something; the fault is one of the first request, or of the second."""
        self.world.clock.advance(timedelta(microseconds=1))
        row, name = self.rows.get(task_id), chr(ord("a") + len(self.asked_for_so_far(task_id)) % 26)
        due = self.now + timedelta(seconds=seconds)
        self.bad_network(fault, "merge")
        self.world.network.passes = passes
        given: dict[str, Any] = {"asked_for": name, "merge": add, "due_time": due, "debounce": later, "urgent": urgent}
        merged = self.world.order.create_or_merge(task_id, **given)
        self.world.network.passes = 0
        asked = self.of(task_id)
        if row is None:
            assert merged.effect == "created"
            self.rows[task_id], asked.now = Row(10, due, urgent=urgent), name
        elif row.code == END:
            assert merged.effect == "restarted"
            row.code, row.due, row.attempt, asked.now = 10, due, 0, name
            row.urgent |= urgent
        elif row.code in (10, 12, 13) and not asked.again:
            assert merged.effect == ("ignored" if row.code == 13 else "merged")
            asked.now += name
            row.urgent |= urgent
            if row.code == 10 and (later or (due < row.due and row.due > self.now + MARGIN)):
                row.due = due
        else:
            assert merged.effect == ("ignored" if row.code % 10 == 3 else "queued")
            asked.again_due = due if later or asked.again_due is None else min(due, asked.again_due)
            asked.again += name
            asked.again_urgent |= urgent

    @rule(
        task_id=st.sampled_from(TASKS),
        asks=st.booleans(),
        how=st.sampled_from(["succeed"] * 3 + ["fail"]),
        fault=faults,
    )
    def run_through(self, task_id: str, asks: bool, how: str, fault: str) -> None:  # noqa: FBT001 - drawn
        """Run a task at once, and ask for it again meanwhile: drawn apart, these seldom meet."""
        run = self.claim(task_id, wrong=False, fault="none", detail=True)
        if isinstance(run, Run):
            if asks:
                self.ask(task_id=task_id, seconds=0, later=False, fault="none", passes=0, urgent=False)
            getattr(self, how)(run, fault)

    def asked_for_so_far(self, task_id: str) -> str:
        asked = self.of(task_id)
        return asked.done + asked.now + asked.again

    def finished(self, run: Run, row: Row) -> None:
        """Move on after a success; that of the last step takes in what was asked for since."""
        asked = self.of(run.task_id)
        if run.step == 10 or not asked.again:
            super().finished(run, row)
            return
        assert asked.again_due is not None
        self.move(row, 10, delay=max(asked.again_due - self.now, timedelta(0)), attempt=0)
        asked.done, asked.now, asked.again, asked.again_due = asked.done + asked.now, asked.again, "", None
        row.urgent, asked.again_urgent = row.urgent or asked.again_urgent, False

    @invariant()
    def every_request_is_in_its_place(self) -> None:
        self.world.network.fault = "none"
        for task_id in self.rows:
            stored, asked = self.world.order.get_task(task_id), self.of(task_id)
            again = stored.queued.attributes["asked_for"]["S"] if stored.queued else ""
            assert (stored.asked_for or "", again) == (asked.now, asked.again)
