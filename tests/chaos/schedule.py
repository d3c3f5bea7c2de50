"""A repeating task: each of its occurrences has one run, in order, and none begins early."""

import random
from typing import Any

from pynamodb_tracker import Repeat, TaskNotStartableError, clock
from tests.chaos.attempts import Attempt, report_crash
from tests.chaos.events import Log
from tests.chaos.interrupts import Interrupts
from tests.chaos.queues import PERIOD

STEERED = "depot"
"""The task that people disable, enable, and run early."""
POLLS = ("bank", STEERED)


def start_up(log: Log, number: int, poll: Any) -> None:
    for task_id in POLLS:
        try:
            poll.create_or_merge(task_id, repeat=Repeat.every(PERIOD, missed="all"))
        except Exception as error:  # noqa: BLE001 - the checker judges it
            report_crash(log, error, f"poll/{task_id}", number)


def command(log: Log, number: int, poll: Any, draw: random.Random) -> None:
    what, named = draw.choice(("now", "now", "ignore", "reopen", "reopen")), f"poll/{STEERED}"
    log.tell("command", named, number, what=what)
    try:
        match what:
            case "now":
                poll.create_or_merge(STEERED)
            case "ignore":
                poll.ask.ignore(STEERED, reason="a person said so", even_running=draw.random() < 0.5)
            case _:
                poll.ask.reopen(STEERED)
    except TaskNotStartableError:
        pass  # somebody was faster, or holds it
    except Exception as error:  # noqa: BLE001 - the checker judges it
        report_crash(log, error, named, number)


def run(attempt: Attempt, task_id: str, interrupts: Interrupts) -> None:
    """Record the occurrence of this run, and whether its time has come."""

    def work(ctx: Any) -> None:
        occurrence, margin = ctx.occurrence, ctx.task.tracker.margin
        early = occurrence - margin - clock.now()
        attempt.log.tell(
            "occurrence",
            f"poll/{task_id}",
            attempt.number,
            occurrence=occurrence.timestamp(),
            early=early.total_seconds(),
            fence=ctx.task.fence,
            attempt=ctx.attempt,
            ending=attempt.script.ending,
        )
        kind = "occurrences" if ctx.task.extra_time is None else "extras"
        ctx.task.data.setdefault(kind, []).append(occurrence.timestamp())

    attempt.run(task_id, work, interrupts)
