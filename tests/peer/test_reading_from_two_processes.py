"""Two processes with different hashes of the same text find the same rows under the same keys."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.engine import Engine
from tests.support.pages import ROOT
from tests.support.processes import Crew, crew

IDS = [f"o-{number}" for number in range(50)]


@pytest.fixture
def workers(dynamodb: Engine, table: str, name: str) -> Iterator[Crew]:
    with crew(dynamodb.endpoint, table, name, timedelta(minutes=5), timedelta(seconds=2)) as workers:
        workers.settings["status_shards"] = 7
        yield workers


def test_every_process_puts_a_task_into_the_same_shard(workers: Crew, name: str) -> None:
    told = []
    for seed in ("1", "2"):
        process = subprocess.run(  # noqa: S603 - this Python, with arguments of the test's own
            [sys.executable, "-m", "tests.support.worker_process", json.dumps(workers.settings), "status_keys", *IDS],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": seed},
            input="go\n",
            capture_output=True,
            text=True,
            check=True,
        )
        told.append(json.loads(process.stdout.splitlines()[-1]))

    assert told[0] == told[1]
    assert set(told[0]) == {f"{name}#10#{shard}" for shard in range(7)}


def test_a_process_finds_and_runs_what_another_one_created(new_worker: Any, dynamodb: Engine, workers: Crew) -> None:
    order = new_worker(dynamodb.endpoint, status_shards=7)
    order.create_many(IDS)

    (report,) = workers.race([["run_all"]])

    assert sorted(report["ran"]) == sorted(IDS)
    assert order.confirm.succeeded.count() == len(IDS)
    assert order.confirm.pending.count() == 0


def test_ids_and_names_that_read_alike_side_by_side_are_different_tasks(
    new_worker: Any, dynamodb: Engine, name: str
) -> None:
    left = new_worker(dynamodb.endpoint, name=f"{name}t")
    right = new_worker(dynamodb.endpoint, name=f"b____{name}t")

    left.create("a____b", amount=1)
    right.create("a", amount=2)

    assert (left.get_task("a____b").amount, right.get_task("a").amount) == (1, 2)
    assert left.confirm.pending.count() == right.confirm.pending.count() == 1
