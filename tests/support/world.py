"""Two workers on one task, a bad network in front of one of them, and a stopped clock."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pynamodb_tracker import TaskNotStartableError
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.testing import StoppedClock
from tests.engine.proxy import Proxy
from tests.support.fixtures import Frozen
from tests.support.operations import Boom
from tests.support.orders import LOCK, MARGIN
from tests.support.proxy_rules import in_turn

OVER = LOCK + 2 * MARGIN
"""How long until a lock has expired by every clock."""


@dataclass
class World:
    """Two workers on one task, one of them behind a bad network, and the time."""

    mine: Any
    theirs: Any
    proxy: Proxy
    clock: StoppedClock
    freeze: Callable[..., Frozen]
    hire: Callable[..., Any]
    """Declares the use case for another worker, with other settings for its first step."""

    def goes_wrong(self, *turns: Any, target: str = "UpdateItem") -> None:
        """Apply these turns to the first worker's next requests."""
        self.proxy.rule = in_turn(target, *turns)

    @property
    def task(self) -> Any:
        return self.theirs.get_task("o")


def fail(step: Any, message: str = "") -> None:
    with contextlib.suppress(Boom), step.start("o"):
        raise Boom(message)


def scan(text: str) -> dict[str, str]:
    return {"scan": text * 10_000}


def ends_of_chunks(world: World) -> list[str | None]:
    """Return the time to live of each chunk with the task's data."""
    prefix = world.theirs.tracker.use_case.prefix + "data#"
    found = world.theirs.tracker.connection().query(
        "o", range_key_condition=TaskRow.use_case_id.startswith(prefix), consistent_read=True
    )
    return [item.get("expire_time", {}).get("N") for item in found["Items"]]


def taken(step: Any) -> bool:
    with contextlib.suppress(TaskNotStartableError), step.start("o"):
        return True
    return False
