"""Runs the chaos once: `python -m tests.chaos --seconds N --seed N`. Ends with 1 if a promise was broken.

The seed decides which worker is killed or frozen and when, when the database crashes, how wrong each clock is, the
fate of the first requests, and what each worker draws for its runs. It does not decide which process is faster. The
same seed therefore gives the same faults, but another history. A broken promise is likely to break again within a few
runs of its seed.
"""

import argparse
import logging
import secrets
import shlex
import signal
import sys
from typing import Any

from tests.chaos.guards import NAMES
from tests.chaos.session import run
from tests.chaos.settings import ONLY_CRASHES, ROUGH, Settings
from tests.chaos.summary import lines, traces
from tests.conftest import prepare_process

INTERRUPTED = 130
"""The usual exit code after Ctrl-C."""


def main() -> int:
    settings = _settings()
    prepare_process()
    logging.disable()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # also then nothing is left behind
    try:
        return _run(settings)
    except KeyboardInterrupt:
        _say(f"interrupted; the seed was {settings.seed}")
        return INTERRUPTED


def _run(settings: Settings) -> int:
    _say(f"seed {settings.seed}; to repeat it: python -m tests.chaos --seed {settings.seed} {_rest()}".rstrip())
    outcome = run(settings)
    for line in (*lines(outcome), *traces(outcome)):
        _say(line)
    return 1 if outcome.violations else 0


def _rest() -> str:
    given = sys.argv[1:]
    if "--seed" in given:
        at = given.index("--seed")
        del given[at : at + 2]
    return shlex.join(given)


def _settings() -> Settings:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--seconds", type=float, default=45.0, help="how long the faults last")
    parser.add_argument("--workers", type=int, default=Settings.workers)
    parser.add_argument("--tasks", type=int, default=0, help="100, and 5 for each second, unless given")
    parser.add_argument("--seed", type=int, default=0, help="drawn unless given")
    parser.add_argument("--queues", type=float, default=Settings.queues, help="the share of actions about queues")
    parser.add_argument(
        "--without",
        default="",
        choices=["", *NAMES],
        metavar="GUARD",
        help="a guard that the workers take out; 'REMOVE parent', or with --rough 'MINE' or 'REMOVE once', shows soon",
    )
    parser.add_argument("--asyncio-only", action="store_true", help="all workers run their tasks on event loops")
    parser.add_argument("--only-crashes", action="store_true", help="crashes of the database, and no other faults")
    parser.add_argument("--rough", action="store_true", help="blocks that outlast their locks, and few tasks")
    told = parser.parse_args()
    options: dict[str, Any] = {
        "workers": told.workers,
        "tasks": told.tasks or int(told.seconds if told.rough else 100 + 5 * told.seconds),
        "queues": told.queues,
    }
    if told.asyncio_only:
        options |= {"on_loops": told.workers, "queues": 0.0}
    for is_wanted, special in ((told.only_crashes, ONLY_CRASHES), (told.rough, ROUGH)):
        options |= special if is_wanted else {}
    seed = told.seed or secrets.randbelow(10**9) + 1
    return Settings(seed=seed, seconds=told.seconds, without=told.without, **options)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
