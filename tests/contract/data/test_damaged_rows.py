"""Damaged rows, one for each attribute and each kind of damage, on every surface: none of them stops the others."""

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from pynamodb_tracker import AsyncWorker, TrackerError, Worker
from pynamodb_tracker.doctor import examine_rows
from pynamodb_tracker.exceptions import TaskError
from pynamodb_tracker.model.worker_name import this_worker
from pynamodb_tracker.testing import StoppedClock
from pynamodb_tracker.web import dashboard
from tests.cli.command import run
from tests.support.damages import DAMAGES, HEALTHY, Damage, DepotTask, Parcel, ignored, put_rows
from tests.support.engines import Engine, only_dynoxide
from tests.support.rows import stored

TABLES = [DepotTask]

CLASS = "tests.support.damages:Parcel"

pytestmark = only_dynoxide  # moto raises errors of its own where types differ


@pytest.fixture(autouse=True)
def damages(engine: Engine, clock: StoppedClock) -> Iterator[list[Damage]]:
    """Give the test a table with all of them."""
    put_rows(clock, DAMAGES)
    yield DAMAGES
    engine.empty()


def check(problems: Iterable[str | None]) -> None:
    assert "\n".join(filter(None, problems)) == ""


def mismatch(damage: Damage, error: BaseException | None) -> str | None:
    """Return what is wrong with how an attempt to run a task ended."""
    if damage.runs:
        return None if error is None else f"{damage.task_id}: {error!r}"
    if not isinstance(error, TaskError):
        return f"{damage.task_id}: {error!r}"
    if damage.task_id not in str(error) or not damage.is_named_in(error):
        return f"{damage.task_id}: not named in: {error}"
    is_left = stored(Parcel, damage.task_id).get("status") == {"N": "11"} and not damage.was_running
    return f"{damage.task_id}: left in progress" if is_left else None


def error_of(call: Callable[[str], object], task_id: str) -> BaseException | None:
    try:
        call(task_id)
    except Exception as error:  # noqa: BLE001 - the test looks at it
        return error
    return None


def refuse(_ctx: object) -> None:
    raise ConnectionError("no")


def start(task_id: str) -> None:
    with Parcel.pack.start(task_id):
        pass


def start_without_details(task_id: str) -> None:
    with Parcel.pack.start(task_id, detailed_error=False):
        pass


def arun(task_id: str) -> None:
    async def nothing(_ctx: object) -> None:
        pass

    asyncio.run(Parcel.pack.arun(task_id, nothing))


def run_blocking(task_id: str) -> None:
    Parcel.pack.run(task_id, ignored)


@pytest.mark.parametrize(("call", "stride"), [(start, 1), (start_without_details, 1), (run_blocking, 3), (arun, 3)])
def test_a_damaged_task_is_refused_with_its_name_and_the_attribute(call: Callable[[str], object], stride: int) -> None:
    check(mismatch(damage, error_of(call, damage.task_id)) for damage in DAMAGES[::stride])
    assert [error_of(call, task_id) for task_id in HEALTHY] == [None] * len(HEALTHY)


@pytest.mark.parametrize("threads", [1, 4])
def test_a_batch_runs_the_healthy_ones_and_names_the_others(threads: int) -> None:
    report = Parcel.pack.run_all(ignored, threads=threads)
    assert set(HEALTHY) <= set(report.succeeded)
    assert sorted(report.failed + report.ignored) == [damage.task_id for damage in DAMAGES if damage.fails]
    found = [damage for damage in DAMAGES if not (damage.is_hidden or damage.fails)]
    check(mismatch(damage, report.refused.get(damage.task_id)) for damage in found)


def test_no_damaged_task_is_left_in_progress_when_its_attempts_are_used_up(clock: StoppedClock) -> None:
    for _ in range(2):
        Parcel.pack.run_all(refuse)
        clock.advance(timedelta(hours=2))
    left = [each for each in DAMAGES if stored(Parcel, each.task_id).get("status") == {"N": "11"}]
    check(each.task_id for each in left if not each.was_running)
    assert stored(Parcel, "trace hostile 0")["status"] == {"N": "13"}


def work(kind: str, ran: set[str]) -> None:
    if kind == "Worker":
        Worker({Parcel.pack: lambda ctx: ran.add(ctx.task.task_id)}).run(until_idle=True)
        return

    async def note(ctx: Any) -> None:
        ran.add(ctx.task.task_id)

    asyncio.run(AsyncWorker({Parcel.pack: note}).run(until_idle=True))


@pytest.mark.parametrize("kind", ["Worker", "AsyncWorker"])
def test_a_worker_runs_the_healthy_ones_and_logs_what_is_wrong_with_the_others(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    ran = set[str]()
    work(kind, ran)
    assert set(HEALTHY) <= ran
    lines = [record.getMessage() for record in caplog.records]

    def is_logged(damage: Damage) -> bool:
        return any(repr(damage.task_id) in line and damage.is_named_in(line) for line in lines)

    found = [damage for damage in DAMAGES if not damage.is_hidden]
    assert {damage.task_id for damage in found if damage.runs or damage.fails} == ran - {*HEALTHY}
    check(damage.task_id for damage in found if not damage.runs and not is_logged(damage))


def test_queries_return_the_damaged_tasks_among_the_others() -> None:
    everything = {damage.task_id for damage in DAMAGES} | {*HEALTHY}
    has_keys = [damage for damage in DAMAGES if damage.attribute != "status_key"]
    waiting = {damage.task_id for damage in has_keys if damage.how != "missing" and not damage.was_running}
    waiting |= {damage.task_id for damage in has_keys if damage.attribute != "due_time" and not damage.was_running}
    assert {task.task_id for task in Parcel.scan()} == everything
    assert {task.task_id for task in Parcel.pack.pending.query()} == waiting | {*HEALTHY}
    assert {task.task_id for task in Parcel.pack.pending.page(limit=200).tasks} == waiting | {*HEALTHY}
    due = {damage.task_id for damage in DAMAGES if not damage.is_hidden}
    assert {task.task_id for task in Parcel.pack.due()} == due | {*HEALTHY}


def ignore(task_id: str) -> None:
    Parcel.pack.ignore(task_id, reason="it is damaged")


def merge(task_id: str) -> None:
    Parcel.create_or_merge(task_id, weight=1)


def release(task_id: str) -> None:
    Parcel.pack.unlock(task_id, reason="its worker is dead", worker=this_worker())


def cancel(task_id: str) -> None:
    Parcel.cancel(task_id, reason="it is damaged")


def send(task_id: str) -> None:
    Parcel.paid.send(task_id, 7)


@pytest.mark.parametrize(
    "command",
    [Parcel.get_task, ignore, Parcel.pack.reopen, merge, release, cancel, send, Parcel.delete_task],
    ids=["get_task", "ignore", "reopen", "create_or_merge", "release", "cancel", "send", "delete_task"],
)
def test_a_command_about_a_damaged_task_does_what_it_does_or_names_the_attribute(
    command: Callable[[str], object],
) -> None:
    def problem(damage: Damage) -> str | None:
        error = error_of(command, damage.task_id)
        is_clear = isinstance(error, TrackerError) and damage.task_id in str(error) and damage.is_named_in(error)
        return None if error is None or is_clear else f"{damage.task_id}: {error!r}"

    check(map(problem, DAMAGES))
    assert [error_of(command, task_id) for task_id in HEALTHY] == [None] * len(HEALTHY)


def test_the_page_shows_every_task_and_what_cannot_be_read() -> None:
    client = TestClient(dashboard(DepotTask, user=lambda _: "ada"))
    tasks = ("/Parcel/tasks?step=pack&state=pending", "/Parcel/tasks?step=pack&state=in_progress")
    for path in ("/", "/workers", "/Parcel/", "/Parcel/errors", "/Parcel/schedules", *tasks):
        assert client.get(path).status_code == 200, path
    ids = [damage.task_id for damage in DAMAGES if not damage.is_hidden]
    for at in range(0, len(ids), 20):
        found = client.get("/find.json", params={"id": "\n".join(ids[at : at + 20])}).json()["found"]
        assert [task["task_id"] for task in found] == ids[at : at + 20]

    def problem(damage: Damage) -> str | None:
        page = client.get("/Parcel/task", params={"id": damage.task_id})
        says = f"{damage.named} unreadable: " in " ".join(re.sub(r"<[^>]*>", " ", page.text).split())
        return None if page.status_code == 200 and says else f"{damage.task_id}: {page.status_code}, {says}"

    check(problem(damage) for damage in DAMAGES if damage.is_unreadable)


@pytest.mark.parametrize(
    "command",
    ["list pack.pending --limit 200", "list pack.in_progress", "errors", "stuck", "status", "workers", "schedules"],
)
def test_the_command_line_lists_the_healthy_tasks(command: str) -> None:
    ended = run(*command.split(), of=CLASS)
    assert ended.code in (0, 1)
    if command.startswith("list pack.pending"):
        assert set(HEALTHY) <= {line[: len(HEALTHY[0])] for line in ended.lines}


def test_the_command_line_shows_every_task_and_what_cannot_be_read() -> None:
    def problem(damage: Damage) -> str | None:
        ended = run("show", damage.task_id, "--json", of=CLASS)
        return None if damage.named in json.loads(ended.out).get("unread", {}) else f"{damage.task_id}: {ended}"

    shown = [each for each in DAMAGES if each.is_unreadable and not each.how.startswith("hostile")]  # each takes 20 ms
    check(map(problem, shown))
    exported = run("export", of=CLASS)
    lines = [json.loads(line)["task_id"] for line in exported.lines]
    assert set(HEALTHY) <= set(lines)
    unreadable = [damage.task_id for damage in DAMAGES if damage.is_unreadable]
    assert set(unreadable).isdisjoint(lines)
    check(task_id for task_id in unreadable if f"{task_id}  cannot be read: " not in exported.err)


def test_the_doctor_lists_every_damaged_row_and_no_other() -> None:
    text = "\n".join(finding.found for finding in examine_rows(DepotTask))
    check(damage.task_id for damage in DAMAGES if damage.task_id not in text)
    assert not any(task_id in text for task_id in HEALTHY)
