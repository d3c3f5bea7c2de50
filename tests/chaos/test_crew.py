"""No worker outlives a chaos run, however it ends, and a worker that ends by itself is reported."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.chaos.crew import Crew, crew
from tests.chaos.pipeline import parcels
from tests.chaos.settings import Settings
from tests.engine.engine import VARIABLE, Engine

NOWHERE = "http://127.0.0.1:9"
TIMEOUT = 60.0


def test_a_frozen_worker_ends_with_its_crew(tmp_path: Path) -> None:
    with crew(Settings(seed=1), NOWHERE, tmp_path) as workers:
        workers.start(0)
        worker = workers.processes[0]
        workers.freeze(0)
    assert worker.exitcode == -signal.SIGKILL
    assert not workers.died


def test_a_worker_that_ends_by_itself_is_reported(tmp_path: Path) -> None:
    workers = Crew(Settings(seed=1), NOWHERE, tmp_path / "not there")
    workers.start(0)
    workers.processes[0].wait(TIMEOUT)
    assert not workers.anybody
    workers.end()
    assert workers.died == ["worker 0 ended by itself with 1"]


@pytest.mark.parametrize("order", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing_behind(dynamodb: Engine, tmp_path: Path, order: signal.Signals) -> None:
    command = subprocess.Popen(
        [sys.executable, "-m", "tests.chaos", "--seconds", "60", "--seed", "5", "--workers", "2"],
        cwd=Path(__file__).parents[2],
        env=os.environ | {VARIABLE: dynamodb.endpoint, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + TIMEOUT
    while not [*tmp_path.glob("*/worker-*")] and time.monotonic() < deadline:
        time.sleep(0.05)

    command.send_signal(order)
    told, _ = command.communicate(timeout=TIMEOUT)  # returns when the last worker has closed its end, too

    assert command.returncode == 130
    assert told.endswith("interrupted; the seed was 5\n")
    assert [*tmp_path.iterdir()] == []
    assert not parcels(dynamodb.endpoint, Settings(seed=5, table=f"chaos-{command.pid}")).exists()
