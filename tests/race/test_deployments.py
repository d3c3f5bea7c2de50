"""A rolling deployment inserts a required step while old programs run, in processes of their own."""

from typing import Any

import pytest

from pynamodb_tracker.control import item
from tests.engine.engine import Engine
from tests.support.deployment_process import FRAUD, Program, orders
from tests.support.processes import started_together, until

pytestmark = pytest.mark.race

ORDERS = 60
"""As many are under way when the step is required, and as many come later."""
OLD = (["work"], ["work"], ["batch"])


def test_from_the_next_read_of_an_old_program_on_no_order_passes_a_required_step(
    dynamodb: Engine, table: str, name: str
) -> None:
    settings: dict[str, Any] = {"endpoint": dynamodb.endpoint, "table": table, "name": name}
    order = orders(**settings)
    order.create_many((f"early-{number}" for number in range(ORDERS)), threads=25)
    with started_together(Program, settings, OLD) as programs:
        until(lambda: order.ship.pending.count() > ORDERS / 10)
        item.require(order, FRAUD, "ada")
        assert {each.hear() for each in programs} == {"read"}
        late = order.create_many((f"late-{number}" for number in range(ORDERS)), threads=25).succeeded
        until(lambda: not order.reserve.pending.count() and not order.reserve.in_progress.count())
        for each in programs:
            each.go()
        reports = [each.report() for each in programs]
    began_after_read = {task_id for read, starts in reports for task_id, at in starts.items() if at > read}
    passed = {task.task_id for task in order.ship.pending.query()}
    with started_together(Program, settings, [["check"]]) as (program,):
        checked = set(program.report())
    assert {*late} <= began_after_read <= checked
    assert (len(passed) + len(checked), passed & checked) == (2 * ORDERS, set())
    assert order.ship.pending.count() == 2 * ORDERS
