"""Four processes with a scheduler on one job store; two are killed while they have claimed jobs."""

import json
import signal
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from apscheduler.triggers.interval import IntervalTrigger

from tests.engine.engine import Engine
from tests.support.processes import started_together, until
from tests.support.scheduler_process import SchedulerWorker, scheduler_on

pytestmark = pytest.mark.race

JOBS, TIMES, EVERY = 6, 8, 0.25
LOCK = 2.0
"""Seconds: a busy machine may take one of them between the submission of a job and its update."""


def test_no_due_time_runs_twice_and_none_is_missing_when_two_of_four_schedulers_are_killed(
    dynamodb: Engine, table: str, name: str, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {
        "endpoint": dynamodb.endpoint,
        "table": table,
        "name": name,
        "lock_for": LOCK,
        "margin": 0.1,
    }
    scheduler = scheduler_on(**settings)
    scheduler.start(paused=True)
    first = int(time.time()) + 1
    start = datetime.fromtimestamp(first, UTC)
    for number in range(JOBS):
        trigger = IntervalTrigger(seconds=EVERY, start_date=start, timezone=UTC)
        scheduler.add_job("tests.support.scheduler_process:work", trigger, id=f"j-{number}", next_run_time=start)
    logs = {when: tmp_path / f"{when}-{number}" for number, when in enumerate(["claimed", "updated"])}
    others = [tmp_path / "survivor-1", tmp_path / "survivor-2"]
    commands = [[when, str(log)] for when, log in logs.items()] + [["never", str(log)] for log in others]
    with started_together(SchedulerWorker, settings, commands) as processes:
        assert [victim.wait() for victim in processes[:2]] == [-signal.SIGKILL] * 2
        killed = time.time()
        last = max(first + TIMES * EVERY, killed)
        until(lambda: all(job.next_run_time.timestamp() > last for job in scheduler.get_jobs()))
        until(lambda: all(log.read_text() for log in others))  # one that is always late finds what is due with a claim
        for survivor in processes[2:]:
            survivor.go()
        assert [survivor.wait() for survivor in processes[2:]] == [0, 0]
    scheduler.shutdown()
    ran = [json.loads(line) for log in (*logs.values(), *others) for line in log.read_text().splitlines()]
    for number in range(JOBS):
        times = sorted(time for _, job_id, time in ran if job_id == f"j-{number}")
        assert times == [first + EVERY * each for each in range(len(times))]
        assert times[-1] >= last - EVERY
    assert all(log.read_text() for log in logs.values())
