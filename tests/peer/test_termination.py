"""SystemExit, GeneratorExit and CancelledError end the program: they are recorded as a failure, and propagate."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("stopped_clock")

ORDERS = [SystemExit, GeneratorExit, asyncio.CancelledError]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, *ORDERS])
def test_an_exit_propagates_although_errors_are_skipped(rival: Any, kind: type[BaseException]) -> None:
    rival.create("o")

    with pytest.raises(kind), rival.confirm.start("o", skip_error=True):
        raise kind

    assert rival.get_task("o").state != rival.confirm.in_progress


@pytest.mark.parametrize("kind", [KeyboardInterrupt, *ORDERS])
def test_an_exit_ends_a_batch(rival: Any, kind: type[BaseException]) -> None:
    rival.create_many(["a", "b", "c"])

    def told_to_end(_: object) -> None:
        raise kind

    with pytest.raises(kind):
        rival.confirm.run_all(told_to_end)

    assert sum(rival.get_task(task_id).fence for task_id in "abc") == 1
