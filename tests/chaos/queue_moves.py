"""A worker's part in queues: it requests, creates and runs tasks, and does what people do."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pynamodb_tracker import TaskNotStartableError
from tests.chaos import follow_ups, groups, joins, merges, schedule, signals
from tests.chaos.attempts import Attempt, report_crash
from tests.chaos.events import Log
from tests.chaos.interrupts import Interrupts
from tests.chaos.pipeline import URGENT
from tests.chaos.queues import Queues, queues_beside
from tests.chaos.records import is_in_its_shard
from tests.chaos.script import Deed, Script, healthy, script
from tests.chaos.settings import Settings

LOOKED_AT = 5
"""Tasks that a worker reads at once. All read the same ones, so they meet."""
LOOKS = 3
"""At how many steps it looks before it does something else."""
KEPT = 3
"""How many of them it tries before it reads again."""
REOPENS = 0.1
"""One in this many actions of calm workers looks for a part to reopen."""
FIRST = {f"worker-{number}-1" for number in range(4)}
FIRST_BILL = 10
"""A worker's first bill, which waits for nothing at first."""
SHORT = 0.1
"""Seconds of a rest that queue blocks leave out, because their few tasks wait for one another."""


def _is_for_queues(deed: Deed) -> bool:
    """Return whether a queue block does this deed. Most deeds are about the rows of parcels."""
    return deed.kind in {"extend", "record"} or (deed.kind == "rest" and not SHORT < deed.amount < 2 * SHORT)


class QueueMoves:
    def __init__(self, settings: Settings, log: Log, parcel: Any, interrupts: Interrupts, *, calm: bool) -> None:
        self.settings = settings
        self.log = log
        self.calm = calm
        self.interrupts = interrupts
        self.queues: Queues = queues_beside(parcel, settings)
        self.due: list[tuple[Any, str]] = []
        """Steps, and tasks that were due when this worker last looked."""
        self.moves: dict[Callable[[int, random.Random], bool], int] = {
            self._run: 50,
            self._ask: 22,
            self._poll: 10,
            self._steer: 2,
            self._sell: 7,
            self._report: 5,
            self._enter: 8,
            self._bill: 6,
            self._answer: 14,
            self._command: 6,
            self._cancel: 3,
        }

    def begin(self) -> None:
        """Do the first things. Some workers create tasks that a slow machine may never draw."""
        schedule.start_up(self.log, 1, self.queues.poll)
        if self.log.worker in FIRST:
            self._create(self.queues.sale, 1)
            self._create(self.queues.report, 1)
            self._create(self.queues.bill, FIRST_BILL)

    def one(self, number: int, draw: random.Random) -> bool:
        """Do one thing. Return whether there was anything to do."""
        if self.calm:
            if draw.random() < REOPENS and (
                self._reopen_parts(number) or signals.send_missing(self.log, number, self.queues.bill)
            ):
                return True
            return self._run(number, draw)
        (move,) = draw.choices(list(self.moves), list(self.moves.values()))
        return move(number, draw)

    def _ask(self, number: int, draw: random.Random) -> bool:
        merges.ask(self.log, number, self.queues.index, merges.key_now(draw), draw)
        return True

    def _sell(self, number: int, _: random.Random) -> bool:
        return self._create(self.queues.sale, number)

    def _report(self, number: int, _: random.Random) -> bool:
        return self._create(self.queues.report, number)

    def _enter(self, number: int, draw: random.Random) -> bool:
        return self._create(self.queues.member, number, group=groups.group_now(draw), urgent=draw.random() < URGENT)

    def _bill(self, number: int, _: random.Random) -> bool:
        if number == FIRST_BILL and self.log.worker in FIRST:  # `begin` has created it
            return False
        task_id = f"{self.log.worker}-{number // 10}"
        options = signals.create_options(self.queues.bill, task_id)
        return self._create(self.queues.bill, number, urgent=number % 3 == 0, **options)

    def _answer(self, number: int, draw: random.Random) -> bool:
        return signals.send_any(self.log, number, self.queues.bill, draw)

    def _create(self, use_case: Any, number: int, **options: Any) -> bool:
        task_id = f"{self.log.worker}-{number // 10}"
        named = f"{use_case.tracker.use_case.name}/{task_id}"
        self.log.tell("make", named, number)
        try:
            use_case.create(task_id, **options)
        except Exception as error:  # noqa: BLE001 - the checker judges it
            report_crash(self.log, error, named, number)
        else:
            self.log.tell("made", named, number)
        return True

    def _run(self, number: int, draw: random.Random) -> bool:
        """Run a task that was due, or look at another step."""
        for step in draw.sample(self.queues.steps, LOOKS):
            if self.due:
                break
            due = list(step.due(limit=LOOKED_AT, with_data=False))
            for task in due:
                if not is_in_its_shard(task):
                    self.log.tell("torn", f"{task.use_case_id}/{task.task_id}", number)
            found = [task.task_id for task in due]
            self.due = [(step, task_id) for task_id in draw.sample(found, min(KEPT, len(found)))]
        if not self.due:
            return False
        self._attempt(number, *self.due.pop(), draw)
        return True

    def _poll(self, number: int, draw: random.Random) -> bool:
        step = self.queues.poll.ask
        schedule.run(Attempt(self.log, number, step, self._script(draw)), draw.choice(schedule.POLLS), self.interrupts)
        return True

    def _steer(self, number: int, draw: random.Random) -> bool:
        schedule.command(self.log, number, self.queues.poll, draw)
        return True

    def _attempt(self, number: int, step: Any, task_id: str, draw: random.Random) -> None:
        attempt, queues = Attempt(self.log, number, step, self._script(draw)), self.queues
        match step.model:
            case queues.index:
                merges.work_off(attempt, task_id, self.interrupts)
            case queues.sale:
                follow_ups.run(attempt, task_id, queues.notice, self.interrupts)
            case queues.report:
                joins.run(attempt, task_id, queues, self.interrupts)
            case queues.bill:
                signals.run(attempt, task_id, self.interrupts)
            case queues.member:
                groups.run(attempt, task_id, self.interrupts)
            case _:
                attempt.run(task_id, lambda _: None, self.interrupts)

    def _script(self, draw: random.Random) -> Script:
        drawn = healthy(draw) if self.calm else script(self.settings, draw)
        return replace(drawn, deeds=tuple(deed for deed in drawn.deeds if _is_for_queues(deed)))

    def _command(self, number: int, draw: random.Random) -> bool:
        """Reopen, ignore or cancel a task, or delete a part."""
        step = draw.choice(self.queues.steps)
        states = [step.ignored, step.pending, step.failed, step.in_progress]
        found = [task.task_id for task in draw.choice(states).query(limit=LOOKED_AT, with_data=False)]
        if not found:
            return False
        task_id, what = draw.choice(found), draw.choice(("reopen", "reopen", "ignore", "cancel", "delete"))
        if what == "delete" and step.model is not self.queues.part:
            what = "reopen"
        named = f"{step.model.tracker.use_case.name}/{task_id}"
        self.log.tell("command", named, number, what=what)
        try:
            match what:
                case "reopen":
                    can_be_urgent = step.model.tracker.use_case.urgent
                    step.reopen(task_id, urgent=can_be_urgent and draw.random() < URGENT)
                case "delete":
                    step.model.delete_task(task_id)
                case _:
                    self._ignore(number, step, task_id, even_running=what == "cancel")
        except TaskNotStartableError:
            pass  # somebody was faster, or holds it
        except Exception as error:  # noqa: BLE001 - the checker judges it
            report_crash(self.log, error, named, number)
        return True

    def _cancel(self, number: int, draw: random.Random) -> bool:
        """Cancel a report with its parts, reopen one that was cancelled, or start one that is ignored."""
        report = self.queues.report
        steps = [each for each in self.queues.steps if each.model is report]
        states = [state for step in steps for state in (step.pending, step.in_progress, step.ignored)]
        state = draw.choice([*states, report.cancelled])
        found = [task.task_id for task in state.query(limit=LOOKED_AT, with_data=False)]
        if not found:
            return False
        task_id = draw.choice(found)
        if state == report.split.ignored:
            attempt = Attempt(self.log, number, report.split, self._script(draw))
            joins.run(attempt, task_id, self.queues, self.interrupts, also_from=[state])
            return True
        is_reopen = state == report.cancelled
        self.log.tell("command", f"report/{task_id}", number, what="reopen" if is_reopen else "cancel all")
        try:
            if is_reopen:
                report.reopen(task_id)
            else:
                joins.cancel(self.log, number, report, task_id, draw.choice((None, report.recall)))
        except TaskNotStartableError:
            pass  # it has ended
        except Exception as error:  # noqa: BLE001 - the checker judges it
            report_crash(self.log, error, f"report/{task_id}", number)
        return True

    def _ignore(self, number: int, step: Any, task_id: str, *, even_running: bool) -> None:
        """Ignore a task, and record the cancelled claim, as far as it is known."""
        who = f"{self.log.worker}/{number}"
        task = step.ignore(
            task_id, reason="a person said so", by=who, even_running=even_running, even_in_group=even_running
        )
        is_mine = bool(task.errors) and task.errors[-1].worker == who
        if is_mine and task.state == step.ignored and task.fence in (task.unfinished or []):
            named = f"{step.model.tracker.use_case.name}/{task_id}"
            self.log.tell("cancelled", named, number, fence=task.fence)

    def _reopen_parts(self, number: int) -> bool:
        """Reopen an ignored part, so that its report does not wait for a person."""
        for part in self.queues.part.do.ignored.query(limit=1, with_data=False):
            self.log.tell("command", f"part/{part.task_id}", number, what="reopen")
            self.queues.part.do.reopen(part.task_id)
            return True
        return False
