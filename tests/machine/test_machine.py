import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from pynamodb_tracker import Task
from pynamodb_tracker.testing import local_table, stopped_clock
from tests.engine.engine import Engine
from tests.machine.faults import Network, faulty
from tests.machine.machine import START, World, order_class
from tests.machine.merging import MergingMachine

NEW = int(os.environ.get("MACHINE_EXAMPLES", "0"))
"""How many sequences to draw at random, for `make chaos`. Without it, each run tries the same few sequences."""
EXAMPLES_ON_MOTO, EXAMPLES = (NEW, NEW) if NEW else (3, 10)
SETTINGS = settings(
    deadline=None, derandomize=not NEW, print_blob=True, stateful_step_count=40, suppress_health_check=list(HealthCheck)
)


@contextmanager
def world(table: type[Task]) -> Iterator[World]:
    network = Network()
    with stopped_clock(START) as clock:
        before = table.tracker.table.reconnect(faulty(network))
        try:
            yield World(order_class(table), clock, network)
        finally:
            table.tracker.table.reconnect(before)


def machine_in(given: World) -> type[MergingMachine]:
    class MachineHere(MergingMachine):
        world = given

    return MachineHere


class AppTask(Task):
    class Meta:
        table_name = "machine"
        region = "us-east-1"


def test_any_sequence_of_operations_agrees_with_the_model_on_moto() -> None:
    with ExitStack() as stack:
        stack.enter_context(local_table(AppTask))
        given = stack.enter_context(world(AppTask))
        run_state_machine_as_test(machine_in(given), settings=settings(SETTINGS, max_examples=EXAMPLES_ON_MOTO))


@pytest.mark.engine
def test_any_sequence_of_operations_agrees_with_the_model_on_dynoxide(dynamodb: Engine) -> None:
    class EngineTask(Task):
        class Meta:
            table_name = f"machine-{uuid.uuid4().hex}"  # an earlier run that was killed has left its own
            region = "us-east-1"
            host = dynamodb.endpoint

    EngineTask.create_table(wait=True)
    try:
        with world(EngineTask) as given:
            run_state_machine_as_test(machine_in(given), settings=settings(SETTINGS, max_examples=EXAMPLES))
    finally:
        EngineTask.delete_table()
