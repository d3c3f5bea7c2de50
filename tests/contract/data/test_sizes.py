"""Sizes: a row has at most 400 KB; larger `data` is stored off-row, up to 10 MB."""

from typing import Any

import pytest
from pynamodb.attributes import UnicodeAttribute

from pynamodb_tracker import Step, UseCase, ValueNotStorableError
from pynamodb_tracker.dynamodb.limits import item_size, value_size
from tests.contract.odd_rows import Odd, plain
from tests.contract.odd_values import KB, columns
from tests.support.engines import is_moto
from tests.support.network import unreached
from tests.support.rows import keys, stored
from tests.support.shop import AppTask

pytestmark = pytest.mark.usefixtures("table")


class Roomy(AppTask):
    use_case_id = UseCase("roomy", max_inline_data=350_000)

    work = Step(10)


class Bare(AppTask):
    use_case_id = UseCase("bare", max_inline_data=0)

    work = Step(10)


class Wide(AppTask):
    use_case_id = UseCase("wide")

    work = Step(10)

    for number in range(200):
        locals()[f"a{number:03}"] = UnicodeAttribute(null=True)
    del number


TOO_LARGE: list[tuple[str, dict[str, Any]]] = [
    ("text", {"text": "x" * 400 * KB}),
    ("text", {"text": "ä" * 200 * KB}),
    ("text", {"text": "\0" * 400 * KB}),
    ("text", {"text": "x" * 20_000_000}),
    ("json", {"json": "ä" * 70 * KB}),
    ("binary", {"binary": b"\xff" * 400 * KB}),
    ("raw_list", {"raw_list": ["x" * 40 * KB] * 10}),
    ("raw_map", {"raw_map": {"a" * 40_000 + str(n): 1 for n in range(11)}}),
    ("texts", {"texts": {str(n) + "x" * 40 * KB for n in range(10)}}),
    ("numbers", {"numbers": {10**37 + n for n in range(20_000)}}),
    ("text", {"text": "x" * 250 * KB, "binary": b"x" * 200 * KB}),
]

LARGE: list[tuple[str, Any]] = [
    ("text", "x" * 404_000),
    ("text", "道" * 134_000),
    ("text", '"' * 404_000),
    ("text", "\0" * 404_000),
    ("binary", b"\xff" * 404_000),
    ("json", "x" * 400_000),
    ("raw_list", ["x" * 40_000] * 10),
    *(("data", {"a": text}) for text in ("x" * 300 * KB, "\ud800" * 50 * KB, '"' * 150 * KB)),
    ("data", {"x" * 200 * KB: "x" * 100 * KB}),
]

BORDERS: list[tuple[type[Any], int, bool]] = [
    (Odd, KB - 1, True),
    (Odd, KB, True),
    (Odd, KB + 1, False),
    (Roomy, 350_000, True),
    (Roomy, 350_001, False),
    (Bare, 8, False),
    (Bare, 10 * KB * KB, False),
]


@columns("name", "values")(TOO_LARGE)
def test_a_row_beyond_400_kb_is_refused_by_the_name_and_the_size_of_its_largest_attribute(
    name: str, values: dict[str, Any]
) -> None:
    with unreached(), pytest.raises(ValueNotStorableError, match=f"put {name}, which takes [0-9,]+") as caught:
        Odd.create("o-1", **values)
    assert (caught.value.attribute, caught.value.task_id) == (name, "o-1")
    assert caught.value.size is not None
    assert caught.value.size > 200 * KB


def assign(task: AppTask, values: dict[str, Any]) -> None:
    for name, value in values.items():
        setattr(task, name, value)


@columns("name", "values")(TOO_LARGE)
def test_a_block_that_makes_a_row_too_large_fails(name: str, values: dict[str, Any]) -> None:
    Odd.create("o-1", text="old")
    with pytest.raises(ValueNotStorableError, match=f"put {name}, which takes [0-9,]+"), Odd.work.start("o-1") as ctx:
        assign(ctx.task, values)
    task = Odd.get_task("o-1")
    assert (task.state, task.text) == (Odd.work.ignored, "old")


def test_a_block_that_assigns_more_attributes_than_one_update_may_fails_before_the_request() -> None:
    values: dict[str, Any] = {f"a{number:03}": "x" * 2_015 for number in range(200)}
    Wide.create("w-1")
    with pytest.raises(ValueNotStorableError, match="would take 410,"), Wide.work.start("w-1") as ctx:
        assign(ctx.task, values)
    Wide.create("w-2", **values)  # a PutItem has no such limit


@pytest.mark.parametrize(
    ("number", "size"),
    [("0", 2), ("1E+125", 2), ("1000000", 2), ("12.50", 3), ("-0.05", 3), ("1" * 38, 21), ("-" + "9" * 37, 21)],
)
def test_zeros_before_and_behind_a_number_take_no_room(number: str, size: int) -> None:
    assert value_size({"N": number}) == item_size({"": {"N": number}}) == size


@columns("name", "value")(LARGE)
def test_what_just_fits_reads_back_equal(name: str, value: Any) -> None:
    Odd.create("o-1", **{name: value})
    assert plain(getattr(Odd.get_task("o-1"), name)) == value
    Odd.create("o-2")
    with Odd.work.start("o-2") as ctx:
        setattr(ctx.task, name, value)
    assert plain(getattr(Odd.get_task("o-2"), name)) == value


@columns("case", "size", "in_row")(BORDERS)
def test_data_on_both_sides_of_a_border_reads_back_equal(case: type[Any], size: int, in_row: bool) -> None:  # noqa: FBT001 - a column of a table
    data = {"a": "x" * (size - len('{"a":""}'))}
    case.create("o-1", data=data)
    case.create("o-2")
    with case.work.start("o-2") as ctx:
        ctx.task.data = data
    for task_id in ("o-1", "o-2"):
        assert case.get_task(task_id).data == data
        assert ("S" in stored(case, task_id)["data"]) is in_row
    assert (len(list(keys(case))) == 2) is in_row


def test_a_byte_of_data_over_10_mb_is_one_too_many() -> None:
    with unreached(), pytest.raises(ValueNotStorableError, match=r"data .* has 10,485,761 bytes as JSON"):
        Odd.create("o-1", data={"a": "x" * (10 * KB * KB - 7)})


def test_moto_takes_a_row_as_large_as_dynamodb_does(request: pytest.FixtureRequest) -> None:
    if is_moto(Odd):
        reason = "moto refuses, after the request, over 405,000 bytes"
        request.applymarker(pytest.mark.xfail(strict=True, reason=reason))
    Odd.create("o-1", text="x" * 406_000)
    assert len(Odd.get_task("o-1").text) == 406_000
