"""`find`, `doctor --before-index`, `load` and `export`: tasks that are found by an attribute."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from pynamodb_tracker.testing import StoppedClock, local_table, stopped_clock
from tests.cli.command import run
from tests.cli.shop import DeskTask, Letter, Parcel
from tests.support.rows import change

pytestmark = pytest.mark.usefixtures("desk")

DESK, LETTER = "tests.cli.shop:DeskTask", "tests.cli.shop:Letter"


@pytest.fixture
def desk() -> Iterator[StoppedClock]:
    with stopped_clock() as clock, local_table(DeskTask):
        for number in range(3):
            Letter.create(f"l-{number}", customer="c-7")
            clock.advance(timedelta(hours=1))
        Parcel.create("p-1", customer="c-7", state=Parcel.send.ignored)
        yield clock
        DeskTask.delete_table()  # where moto is in use already, leaving it deletes nothing


def found(*options: str, of: str = DESK) -> list[str]:
    ended = run("find", "customer=c-7", *options, "--json", of=of)
    assert ended.code == 0, ended.err
    return [each["task_id"] for each in json.loads(ended.out)]


def test_tasks_of_all_use_cases_are_found_with_their_states() -> None:
    ended = run("find", "customer=c-7", of=DESK)
    assert (ended.code, ended.err) == (0, "")
    assert ended.lines[0].split() == ["task", "use", "case", "state", "created", "age", "error"]
    assert ended.lines[1].split()[:5] == ["l-0", "letter", "send.pending", "3h", "ago"]
    assert ended.lines[4].split()[:3] == ["p-1", "parcel", "send.ignored"]
    assert "no task of Letter has customer=c-8" in run("find", "customer=c-8", of=LETTER).out
    filtered = run("find", "customer=c-7", "--until", "900d", of=LETTER)
    assert filtered.out == "no matching task of Letter has customer=c-7\n"


def test_options_narrow_the_search() -> None:
    assert found("--newest", "--limit", "2") == ["p-1", "l-2"]
    assert found("--since", "2h") == ["l-1", "l-2", "p-1"]
    assert found("--until", "2h", of=LETTER) == ["l-0"]
    assert found("--use-case", "parcel") == ["p-1"]
    for state in ("parcel.send.ignored", "parcel.send ignored"):
        assert found("--state", state) == ["p-1"]
    assert found("--state", "send pending", of=LETTER) == ["l-0", "l-1", "l-2"]
    assert "use --limit N or --all" in run("find", "customer=c-7", "--limit", "1", of=DESK).err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["c-7"], "'c-7' is not NAME=VALUE, as in customer=c-7"),
        (["custmer=c-7"], "Letter does not have FindBy(custmer); did you mean 'customer'?"),
        (["customer=c-7", "--state", "sent"], "'sent' is not a state: write STEP.STATUS"),
    ],
)
def test_what_cannot_be_searched_is_refused(arguments: list[str], why: str) -> None:
    ended = run("find", *arguments, of=LETTER)
    assert (ended.code, ended.out) == (2, "")
    assert why in ended.err


def test_the_doctor_finds_what_an_index_cannot_have_before_it_is_added() -> None:
    assert "customer" not in run("doctor", "--before-index", of=DESK).out
    change(Letter, "l-0", customer={"S": "é" * 513})
    change(Letter, "l-1", customer={"S": "c" * 1024})
    assert "values of customer" not in run("doctor", of=DESK).out
    ended = run("doctor", "--before-index", "--json", of=DESK)
    (finding,) = [each for each in json.loads(ended.out)["findings"] if each["subject"] == "values of customer"]
    assert (ended.code, finding["severity"], finding["found"]) == (1, "danger", "letter 'l-0' (1,026 bytes)")


def test_what_is_loaded_is_found(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"task_id": "l-8", "customer": "c-8"}\n{"task_id": "l-9", "customer": ""}\n', encoding="utf-8")
    assert run("load", str(file), of=LETTER).code == 0
    assert [task.task_id for task in Letter.by_customer.query("c-8")] == ["l-8"]
    assert Letter.get_task("l-9").customer is None
    exported = [json.loads(line) for line in run("export", of=LETTER).lines]
    assert {each["task_id"]: each.get("customer") for each in exported}["l-8"] == "c-8"
