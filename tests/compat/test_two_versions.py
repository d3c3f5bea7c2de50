"""Workers of an earlier version and of this one on one table: nothing is lost, nothing runs twice."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pynamodb_tracker.step.signal import BoundSignal
from tests.compat.declared import AppTask, Order, Piece
from tests.engine.engine import Engine
from tests.support.engines import Dynoxide
from tests.support.pages import ROOT
from tests.support.rows import change, stored

WITHOUT_ANSWERS = "427096d"
"""The last revision that writes format 2, and not yet format 3."""
EARLIER = WITHOUT_ANSWERS
"""The tag of the last release before this version, of which there is none. No network is needed, as for its wheel."""

RUNNING = (101, 201, 301)
"""The codes of a running task, of each step."""

pytestmark = [pytest.mark.race, pytest.mark.engine]


@pytest.fixture(scope="module", params=[EARLIER])
def earlier(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lay out an earlier version, with the worker and the classes of this folder beside it."""
    git = shutil.which("git")
    command = [git or "git", "-C", str(ROOT), "archive", request.param, "pynamodb_tracker"]
    packed = subprocess.run(command, capture_output=True, check=False) if git else None  # noqa: S603 - our own
    if packed is None or packed.returncode:
        given_up = pytest.fail if "GITHUB_ACTIONS" in os.environ else pytest.skip  # there, the whole history is cloned
        given_up(f"no revision {request.param} here: clone with the whole history, by git fetch --unshallow")
    folder = tmp_path_factory.mktemp("earlier")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    (folder / "tests").mkdir()
    shutil.copytree(ROOT / "tests" / "compat", folder / "tests" / "compat")
    return folder


@pytest.fixture
def table(dynamodb: Engine) -> Iterator[None]:
    with Dynoxide.of([AppTask], dynamodb.endpoint):
        yield


def workers(folders: list[Path], endpoint: str) -> list[dict[str, Any]]:
    """Start a worker of the version in each folder, let all begin at once, and return what they say."""
    started = []
    for folder in folders:
        given = {"PYTHONPATH": str(folder), "COMPAT_TABLE": AppTask.Meta.table_name}
        given["TRACKER_TEST_ENDPOINT"] = endpoint
        command = [sys.executable, "-m", "tests.compat.worker"]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen(command, cwd=folder, env=os.environ | given, **pipes))  # noqa: S603 - our own
    assert [process.stdout.readline() for process in started if process.stdout] == ["ready\n"] * len(started)
    for process in started:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    told = [json.loads(process.communicate(timeout=120)[0].splitlines()[-1]) for process in started]
    assert [Path(each["from"]).parents[1] for each in told] == [folder.resolve() for folder in folders]
    return told


@pytest.mark.usefixtures("table")
def test_old_and_new_workers_share_a_table_and_each_refuses_what_a_later_version_wrote(
    earlier: Path, dynamodb: Engine
) -> None:
    orders = [f"o-{number}" for number in range(12)]
    pieces = [f"p-{number}" for number in range(12)]
    Order.create_many(orders)
    for number, name in enumerate(pieces):
        Piece.create(name, group=f"customer-{number % 3}")
    Order.create("newer")
    change(Order, "newer", v={"N": "99"})
    before = stored(Order, "newer")

    told = workers([earlier, ROOT, earlier, ROOT], dynamodb.endpoint)

    runs = Counter(each for worker in told for each in worker["ran"])
    expected = {f"order/{name}/{status}" for name in orders for status in RUNNING}
    assert runs == dict.fromkeys(expected | {f"piece/{name}/{RUNNING[0]}" for name in pieces}, 1)
    assert {Order.get_task(name).state for name in orders} == {Order.deliver.succeeded}
    assert {Piece.get_task(name).state for name in pieces} == {Piece.make.succeeded}
    assert all("newer: TaskFormatError" in worker["refused"] for worker in told)
    assert stored(Order, "newer") == before


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("earlier", [WITHOUT_ANSWERS], indirect=True)
def test_an_old_worker_leaves_alone_what_awaits_or_has_an_answer_until_a_new_one_runs_it(
    earlier: Path, dynamodb: Engine
) -> None:
    paid = BoundSignal(Order, "paid")
    Order.create("answered")
    paid.send("answered", 1)
    Order.create("woken", wait_for=paid)
    paid.send("woken", 1)
    Order.create("waits", wait_for=paid)
    names = ("answered", "woken", "waits")
    before = [stored(Order, name) for name in names]

    [told] = workers([earlier], dynamodb.endpoint)

    assert (told["ran"], told["refused"]) == ([], ["answered: TaskFormatError", "woken: TaskFormatError"])
    assert [stored(Order, name) for name in names] == before
    [told] = workers([ROOT], dynamodb.endpoint)
    assert len(told["ran"]) == 2 * len(RUNNING)
    assert [str(Order.get_task(name).state) for name in names] == [
        "deliver succeeded",
        "deliver succeeded",
        "confirm pending",
    ]
