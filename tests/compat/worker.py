"""A worker of either version: runs what is due until nothing is left, and says on its last line what it ran."""

from __future__ import annotations

import json
import sys
from typing import Any

import pynamodb_tracker
from tests.compat.declared import Order, Piece

RAN: list[str] = []


def note(ctx: Any) -> None:
    """Be the block of every step."""
    RAN.append(f"{ctx.task.use_case_id}/{ctx.task.task_id}/{ctx.task.status}")


def main() -> None:
    """Run every step, round by round."""
    refused: set[str] = set()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    idle = 0
    while idle < 3:
        succeeded = 0
        for step in (Order.confirm, Order.ship, Order.deliver, Piece.make):
            report = step.run_all(note)
            succeeded += len(report.succeeded)
            refused |= {f"{task_id}: {type(error).__name__}" for task_id, error in report.refused.items()}
        idle = 0 if succeeded else idle + 1
    told = {"ran": RAN, "refused": sorted(refused), "from": pynamodb_tracker.__file__}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
