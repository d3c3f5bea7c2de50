"""Runs `python -m pynamodb_tracker` as a person does, in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Sequence

from tests.support.forked import Forked

WITHOUT = (
    "import sys; sys.modules.update(dict.fromkeys({missing!r})); from pynamodb_tracker.__main__ import main; main()"
)
"""A program in which these packages cannot be imported, as if they were not installed."""


def environment() -> dict[str, str]:
    """Return an environment without access keys, region or endpoint."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return kept | {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull, "COLUMNS": "100"}


def started(*arguments: str) -> subprocess.Popen[str]:
    return Forked(
        ["pynamodb_tracker", *arguments], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def ran(*arguments: str, missing: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run the command to its end; `missing` are packages that it does not find."""
    program = ["-c", WITHOUT.format(missing=list(missing))] if missing else ["-m", "pynamodb_tracker"]
    return subprocess.run(  # noqa: S603 - our own arguments, through no shell
        [sys.executable, *program, *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
