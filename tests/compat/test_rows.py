"""The stored items of released versions: this version writes those of its own file, and reads and ends all tasks."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pynamodb_tracker import Status
from pynamodb_tracker.control import flow, records, slots
from pynamodb_tracker.control import item as control
from pynamodb_tracker.doctor import examine_rows
from pynamodb_tracker.dynamodb.connection import get_items
from pynamodb_tracker.model.overflow import by_key, key_of
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.step.signal import signal_named
from pynamodb_tracker.testing import stopped_clock
from tests.cli.command import run
from tests.compat import rows
from tests.compat.rows import BEGIN, HOUR, USE_CASES, AppTask, Order, Receipt, Transfer
from tests.support.engines import Engine, opened
from tests.support.rows import Item, put

FILES = sorted(
    Path(__file__).parent.glob("rows-*.json"), key=lambda file: [int(part) for part in file.stem[5:].split(".")]
)
LATEST = FILES[-1]
TASKS = {file: [item for item in rows.stored(file) if "status" in item] for file in FILES}
CHANGED = (
    f"the stored form differs from {LATEST.name}. Once that version is released, its file never changes, because users "
    "have such items: raise __version__, and write a file for the next one with python -m tests.compat.rows"
)

Hold = Callable[[Path | None], None]

engine = opened(AppTask, scope="module", in_memory=False)
of_each_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


@pytest.fixture(scope="module")
def hold(engine: Engine) -> Hold:
    """Return a function that lets the table hold the items of a file, or nothing."""
    held: set[Path] = set()

    def hold(file: Path | None) -> None:
        if file in held:
            return
        engine.empty()
        held.clear()
        if file is not None:
            for item in rows.stored(file):
                put(AppTask, item)
            held.add(file)

    return hold


@pytest.fixture
def change(hold: Hold) -> Iterator[Hold]:
    """Return the same for a test that changes items."""
    hold(None)
    yield hold
    hold(None)


def run_about(model: Any, *arguments: str) -> Any:
    return run(*arguments, of=f"{rows.__name__}:{model.__name__}")


@pytest.mark.parametrize(
    ("file", "item"),
    [pytest.param(file, item, id=item["task_id"]["S"]) for file, items in TASKS.items() for item in items],
)
def test_a_stored_task_is_read(hold: Hold, file: Path, item: Item) -> None:
    hold(file)
    [model] = [each for each in USE_CASES if each.tracker.use_case.name == item["use_case_id"]["S"]]
    task = model.get_task(item["task_id"]["S"])
    shown = run_about(model, "show", task.task_id)
    missing = [failure.message for failure in task.errors if failure.message not in shown.out]
    assert (str(task.status), shown.code, missing) == (item["status"]["N"], 0, [])


@of_each_file
def test_the_doctor_finds_no_damage_and_an_export_has_each_task(hold: Hold, file: Path) -> None:
    hold(file)
    with stopped_clock(BEGIN + timedelta(days=1)):
        exported = [line for model in USE_CASES for line in run_about(model, "export").lines]
        found = examine_rows(AppTask)
    assert (found, sorted(json.loads(line)["task_id"] for line in exported)) == ([], ids_in(file))


@of_each_file
def test_items_that_are_no_tasks_are_read(hold: Hold, file: Path) -> None:
    hold(file)
    group, (of_receipts, of_people) = (
        Order.group("group"),
        (records.schedules_key(Receipt), records.commands_key(Transfer)),
    )
    with stopped_clock(BEGIN + 2 * HOUR) as clock:
        held = control.read(Transfer)
        keys = [of_receipts, of_people, *flow.keys_of(Transfer, clock.now())]
        found = by_key(get_items(AppTask.tracker.connection(), keys))
        used = [use.taken for use in slots.uses(Transfer)]
        hours = [hour.numbers for hour in flow.hours_in(Transfer, clock.now(), found) if hour.numbers]
    assert (
        (group.turn, group.waiting(), group.data),
        ([*held.pauses], [*held.required], held.names),
        (
            records.schedules_in(found[key_of(of_receipts)]),
            [it.did for it in records.commands_in(found[key_of(of_people)])],
        ),
        (used, hours),
    ) == (
        ("group/turn", ["group/second", "group/third"], {"total": 1}),
        ([100], [300], {100: ["book"], 200: ["tell"], 300: ["audit"]}),
        (["repeating", "repeating_earlier"], ["required", "resumed", "paused", "paused"]),
        ([1], [{"created": 1, "succeeded#100": 1, "took0#100": 1}, {"created": 1}]),
    )


@of_each_file
def test_what_lies_beside_a_row_is_read(hold: Hold, file: Path) -> None:
    hold(file)
    children = re.findall(r"waits_for_children/\w+", run_about(Order, "show", "waits_for_children").out)
    data, failed = (Order.get_task(task_id) for task_id in ("data_in_chunks", "failed_with_a_log_item"))
    assert (sorted({*children}), len(data.data["lines"]), [failure.message for failure in failed.errors]) == (
        ["waits_for_children/gift", "waits_for_children/receipt"],
        999,
        ["no answer " * 99] * 2,
    )


@of_each_file
def test_each_stored_task_can_be_led_to_success_and_deleted(change: Hold, file: Path) -> None:
    change(file)
    with stopped_clock(BEGIN) as clock:
        for _ in range(6):
            clock.advance(timedelta(days=1))
            for model in USE_CASES:
                advance(model)
        ended = {task.task_id: task.state.status for model in USE_CASES for task in tasks_of(model)}
        refused = [model.delete_use_case().refused for model in USE_CASES]
    assert (ended, refused) == (dict.fromkeys(ids_in(file), Status.SUCCEEDED), [{}] * len(USE_CASES))


def ids_in(file: Path) -> list[str]:
    return sorted(item["task_id"]["S"] for item in TASKS[file])


def tasks_of(model: Any) -> list[Any]:
    return list(model.scan(model.use_case_id == model.tracker.use_case.name, consistent_read=True))


def advance(model: Any) -> None:
    """Send what tasks wait for, reopen those that were cancelled or ignored, and run what is due."""
    for task in tasks_of(model):
        if task.state == model.cancelled or task.state.status is Status.IGNORED:
            model.reopen(task.task_id)
        for name in task.awaited_signals or ():
            signal_named(model, name).send(task.task_id, round=task.round or task.creation)
    for step in model._bound_steps.values():
        step.run_all(rows.work)


def test_this_version_writes_the_items_of_the_latest_file(change: Hold) -> None:
    change(None)
    assert rows.unpacked(rows.made()) == rows.unpacked(LATEST.read_text().splitlines()), CHANGED


def test_the_latest_file_has_each_attribute_of_a_row() -> None:
    stored = {name for item in TASKS[LATEST] for name in item}
    assert {attribute.attr_name for attribute in TaskRow.get_attributes().values()} - stored == set()
