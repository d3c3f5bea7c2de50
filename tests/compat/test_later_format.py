"""Two programs on one table, of which one knows a format less: it refuses the other's rows by name, and keeps them."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest

from pynamodb_tracker import Signal, Step, Task, TaskFormatError, UseCase
from pynamodb_tracker.aws_lambda import retry_handler
from pynamodb_tracker.model import row
from pynamodb_tracker.testing import stopped_clock
from pynamodb_tracker.writes import conditions, creations
from tests.aws_lambda.shop import Context
from tests.engine.engine import Engine
from tests.support.engines import Dynoxide
from tests.support.rows import stored

pytestmark = pytest.mark.engine


def declared(*, table_name: str = "formats", host: str | None = None) -> Any:
    """Return the use case as one program declares it."""

    class AppTask(Task):
        Meta = type("Meta", (), {"table_name": table_name, "region": "us-east-1", "host": host})

    class Order(AppTask):
        use_case_id = UseCase("order")

        pay = Step(100)
        paid = Signal()

    return Order


@contextlib.contextmanager
def one_format_less() -> Iterator[None]:
    """Let the library know, and write, the format before the latest one."""
    known = row.LATEST_FORMAT - 1
    with (
        mock.patch.object(row, "LATEST_FORMAT", known),
        mock.patch.object(conditions, "LATEST_FORMAT", known),
        mock.patch.object(creations, "FORMAT", known),
    ):
        yield


@pytest.fixture
def newer(dynamodb: Engine) -> Iterator[Any]:
    order = declared()
    table = order.tracker.table.owner
    with Dynoxide.of([table], dynamodb.endpoint):
        yield order


@pytest.fixture
def older(newer: Any) -> Any:
    return declared(table_name=newer.Meta.table_name, host=newer.Meta.host)


def finish(newer: Any, older: Any) -> None:
    """End a task of the older program, behind which one of the newer program waits for its turn."""
    with one_format_less():
        older.create("first", group="customer-7")
    newer.create("o", group="customer-7")
    before = stored(newer, "o")
    with one_format_less(), pytest.raises(TaskFormatError, match="turn of group 'customer-7' to Order 'o': a later"):
        older.pay.run("first", lambda _: None)
    first = newer.get_task("first")
    assert (first.state, first.attempt, stored(newer, "o")) == (newer.pay.pending, 0, before)
    newer.pay.run("first", lambda _: None)
    assert newer.get_task("first").format_version == 0


def refuses(act: Callable[[Any], object]) -> Callable[[Any, Any], None]:
    """Return a case in which the newer program creates a task, and what the older one does changes nothing."""

    def case(newer: Any, older: Any) -> None:
        newer.create("o")
        before = stored(newer, "o")
        with one_format_less(), pytest.raises(TaskFormatError, match=r"Order 'o': a later .* in format 1, but .* to 0"):
            act(older)
        assert stored(newer, "o") == before

    return case


def sweep(older: Any) -> None:
    """Run what is due in a sweep of AWS Lambda, and in a batch, whose refusal is raised."""
    with stopped_clock() as clock:
        told = retry_handler(older.pay, lambda _: pytest.fail("it is of the newer program"))({}, Context(clock))
        assert (told["succeeded"], told["failed"], told["refused"]) == (0, 0, 1)
        raise older.pay.run_all(lambda _: pytest.fail("it is of the newer program")).refused["o"]


CASES: dict[str, Callable[[Any, Any], None]] = {
    "claim": refuses(lambda order: order.pay.run("o", lambda _: None)),
    "finish": finish,
    "signal": refuses(lambda order: order.paid.send("o", 1)),
    "merge": refuses(lambda order: order.create_or_merge("o")),
    "delete": refuses(lambda order: order.delete_task("o")),
    "sweep": refuses(sweep),
}


@pytest.mark.parametrize("case", CASES)
def test_a_program_leaves_rows_of_a_later_format_to_the_one_that_knows_it(newer: Any, older: Any, case: str) -> None:
    CASES[case](newer, older)
    assert newer.pay.run_all(lambda _: None).succeeded == ["o"]
    assert (newer.get_task("o").state, newer.get_task("o").format_version) == (newer.pay.succeeded, row.LATEST_FORMAT)
