"""The text of a large dictionary: how much of it is parsed, which takes most of the time of a run that changes it."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from pynamodb_tracker import Step, Task, UseCase
from pynamodb_tracker.model.changes import changes_of
from pynamodb_tracker.model.row import load

LINES = [{"sku": f"4711-{number}", "count": 1.0, "is_packed": False} for number in range(100)]
TEXT = json.dumps({"lines": LINES, "carrier": "post"}, separators=(",", ":"))


class ParcelTask(Task):
    class Meta:
        table_name = "parcels"
        region = "us-east-1"


class Parcel(ParcelTask):
    use_case_id = UseCase("parcel")

    pack = Step(10)


def add(data: dict[str, Any]) -> None:
    data["receipt"] = {"number": "r-1", "lines": [1, 2]}


def change_inside(data: dict[str, Any]) -> None:
    data["lines"][50]["is_packed"] = True


def count(data: dict[str, Any]) -> None:
    data["lines"][50]["count"] += 1


def replace(data: dict[str, Any]) -> None:
    data["carrier"] = "9 couriers"


@pytest.mark.parametrize(("change", "times"), [(add, 1), (change_inside, 2), (count, 2), (replace, 2)])
def test_data_is_parsed_once_and_once_more_if_more_than_entries_at_its_end_has_changed(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[dict[str, Any]], None], times: int
) -> None:
    parcel = load(Parcel, {"task_id": {"S": "p-1"}, "use_case_id": {"S": "parcel"}, "data": {"S": TEXT}})
    parsed: list[int] = []
    decode = json.JSONDecoder.raw_decode

    def counted(decoder: json.JSONDecoder, text: str, idx: int = 0) -> Any:
        parsed.append(len(text))
        return decode(decoder, text, idx)

    monkeypatch.setattr(json.JSONDecoder, "raw_decode", counted)
    change(parcel.data)
    _, new = changes_of(parcel)["data"]
    assert new is not None
    assert round(sum(parsed) / len(TEXT)) == times
    monkeypatch.undo()
    assert json.loads(new["S"]) == parcel.data
