"""The command: python -m tests.chaos --seconds N --workers N --tasks N --seed N; ends with 1 where a promise broke."""

from __future__ import annotations

import argparse
import logging
import os
import secrets
import sys

from tests.chaos.guards import NAMES
from tests.chaos.session import run
from tests.chaos.settings import Settings
from tests.chaos.summary import lines, traces
from tests.conftest import AWS_SETTINGS
from tests.engine.dynamodb_local import start


def main() -> int:
    """Run once, and print what happened."""
    settings = _settings()
    os.environ |= AWS_SETTINGS
    logging.disable()
    _say(f"seed {settings.seed}")
    engine = start()
    try:
        outcome = run(engine.endpoint, settings)
    finally:
        engine.stop()
    for line in (*lines(outcome), *traces(outcome)):
        _say(line)
    return 1 if outcome.violations else 0


def _settings() -> Settings:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=45.0, help="how long the faults last")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--tasks", type=int, default=0, help="at most; 10 for each second unless given")
    parser.add_argument("--seed", type=int, default=0, help="drawn unless given")
    parser.add_argument("--without", default="", choices=["", *NAMES], help="a guard that the workers take out")
    told = parser.parse_args()
    return Settings(
        seed=told.seed or secrets.randbelow(10**9) + 1,
        seconds=told.seconds,
        workers=told.workers,
        tasks=told.tasks or int(10 * told.seconds),
        without=told.without,
    )


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
