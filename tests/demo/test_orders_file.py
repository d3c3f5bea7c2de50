"""A file of orders: what is read from it, and how everything that is wrong with it is reported."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pynamodb_tracker.demo import DemoError
from pynamodb_tracker.demo.orders import PlacedOrder, read_orders

COLUMNS = (
    "order_id,customer_id,order_status,order_purchase_timestamp,order_approved_at,"
    "order_delivered_carrier_date,order_delivered_customer_date,order_estimated_delivery_date"
)

Write = Callable[[str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(content: str | bytes) -> Path:
        path = tmp_path / "orders.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return written


def problems_of(path: Path) -> list[str]:
    with pytest.raises(DemoError) as caught:
        read_orders(path)
    return [problem.removeprefix(f"{path}:") for problem in str(caught.value).splitlines()]


def test_an_order_has_the_times_of_the_steps_that_happened(write: Write) -> None:
    path = write(f"{COLUMNS}\na1,c1,shipped,10/2/2017 9:56,10/2/2017 11:07,1/4/2018 19:55,,10/18/2017 0:00\n")
    approved, carried = datetime(2017, 10, 2, 11, 7), datetime(2018, 1, 4, 19, 55)  # noqa: DTZ001 - no zone in files
    assert read_orders(path) == [PlacedOrder("a1", "shipped", {"confirm_payment": approved, "ship": carried})]


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("3/4/2018 5:06", datetime(2018, 3, 4, 5, 6)),  # noqa: DTZ001
        ("03/04/2018 05:06:07", datetime(2018, 3, 4, 5, 6, 7)),  # noqa: DTZ001
        ("3/4/2018 5:06 PM", datetime(2018, 3, 4, 17, 6)),  # noqa: DTZ001
        ("3/4/2018", datetime(2018, 3, 4)),  # noqa: DTZ001
        ("2018-03-04 05:06:07", datetime(2018, 3, 4, 5, 6, 7)),  # noqa: DTZ001
        ("2018-03-04T05:06:07.5Z", datetime(2018, 3, 4, 5, 6, 7, 500000, tzinfo=UTC)),
        ("2018-03-04", datetime(2018, 3, 4)),  # noqa: DTZ001
    ],
)
def test_a_time_is_read_as_month_day_year_or_as_in_iso_8601(write: Write, text: str, time: datetime) -> None:
    path = write(f"order_id,order_status,order_approved_at\na1,approved,{text}\n")
    assert read_orders(path)[0].times == {"confirm_payment": time}


def test_columns_may_be_left_out_and_come_in_any_order(write: Write) -> None:
    assert read_orders(write("order_status,order_id\nshipped,a1\n")) == [PlacedOrder("a1", "shipped")]


def test_a_byte_order_mark_windows_line_ends_and_blank_lines_are_no_matter(write: Write) -> None:
    path = write(b"\xef\xbb\xbforder_id,order_status\r\n\r\na1,created\r\n\r\na2, Delivered \r\n")
    assert [(order.order_id, order.status) for order in read_orders(path)] == [("a1", "created"), ("a2", "delivered")]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "the column 'order_id' is missing"),
        ("order_id,order_status\n", "there are no orders below the header"),
        (
            "order_id,order_status,order_aproved_at\n",
            "unknown column 'order_aproved_at'; did you mean 'order_approved_at'",
        ),
        ("order_id,order_status,zip\n", "unknown column 'zip'. Write one of order_id, "),
        ("customer_id,order_status\nc1,created\n", "the column 'order_id' is missing"),
        ("order_id;order_status\na1;created\n", "unknown column 'order_id;order_status'"),
        (b"order_id,order_status\na\xe9,created\n", "'utf-8' codec can't decode byte 0xe9"),
        ('order_id,order_status\na1,"created\n', "unexpected end of data"),
    ],
)
def test_a_file_that_is_not_one_of_orders_is_refused(write: Write, content: str | bytes, problem: str) -> None:
    [found] = problems_of(write(content))
    assert found.startswith(f" {problem}")


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        ("a1,created\na2,created\na1,shipped\n", 4, "order_id 'a1' occurs twice"),
        ("a1,created\n\n,created\n", 4, "a task id has 1 to 1024 bytes, not 0"),
        ("a1,deliverd\n", 2, "unknown order_status 'deliverd'; did you mean 'delivered'?"),
        ("a1,\n", 2, "unknown order_status ''. Write one of created, "),
        ("a1\n", 2, "the line and the header have different numbers of fields"),
        ("a1,created,\n", 2, "the line and the header have different numbers of fields"),
        ('"a\n1",created\na2,x\n', 4, "unknown order_status 'x'"),
    ],
)
def test_a_wrong_line_is_reported_with_its_number(write: Write, content: str, line: int, words: str) -> None:
    [problem] = problems_of(write(f"order_id,order_status\n{content}"))
    assert problem.startswith(f"{line}: {words}")


@pytest.mark.parametrize("column", COLUMNS.split(",")[3:])
@pytest.mark.parametrize("text", ["31/12/2017 10:00", "2017-13-01", "yesterday", "10/2/2017 25:00", "2017"])
def test_a_bad_date_is_reported_in_each_column_of_times(write: Write, column: str, text: str) -> None:
    (problem,) = problems_of(write(f"order_id,order_status,{column}\na1,created,\na2,created,{text}\n"))
    assert problem.startswith(f"3: {column} {text!r} is not a date. Write M/D/YYYY H:MM, month first, or YYYY-MM-DD")


def test_the_first_problem_of_every_line_is_reported_at_once(write: Write) -> None:
    problems = problems_of(write("order_id,order_status,order_approved_at\na1,no,never\na2,created,\na2,created,\n"))
    assert [problem.partition(":")[0] for problem in problems] == ["2", "4"]


def test_of_very_many_problems_the_first_are_reported_and_the_others_counted(write: Write) -> None:
    problems = problems_of(write("order_id,order_status\n" + "".join(f"a{n},no\n" for n in range(50))))
    assert (len(problems), problems[-1]) == (21, " and 30 more")


def test_a_file_that_cannot_be_read_is_reported_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(DemoError, match=r"nothing\.csv: No such file"):
        read_orders(tmp_path / "nothing.csv")
