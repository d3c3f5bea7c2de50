"""`size`: what a table needs to carry a load, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer

from pynamodb_tracker.cli import options as opt
from pynamodb_tracker.cli.command import exit_on_error
from pynamodb_tracker.cli.terminal import say, say_json
from pynamodb_tracker.cost import QUOTA_UNITS, Load, Size, size_for
from pynamodb_tracker.presentation.text import count


def size(
    *,
    rate: Annotated[
        float, typer.Option(parser=opt.rate, metavar="N/UNIT", help="New tasks at the peak: 2000, 2000/s, 50000/h.")
    ],
    steps: Annotated[int, typer.Option(min=1, max=99, metavar="N", help="Steps of a task.")] = 1,
    attempts: Annotated[
        float,
        typer.Option(
            min=1, max=1000, metavar="N", help="Attempts per step, on average: 1.1 if one task in ten needs 2."
        ),
    ] = 1.0,
    row_kb: Annotated[int, typer.Option("--row-kb", min=1, max=400, metavar="N", help="Started KB of a row.")] = 1,
    no_index_succeeded: Annotated[
        bool, opt.flag("--no-index-succeeded", "Size a use case with index_succeeded=False.")
    ] = False,
    as_json: opt.Json = False,
) -> None:
    """Print what a use case needs of an on-demand table: shards, write units, warm throughput, a quota, and dollars.

    It is a calculation: it needs no table, no --app and no network. The formulas follow from AWS's documented limits,
    and have not been tried on AWS. The prices are those of us-east-1 since November 2024.
    """
    load = Load(rate=rate, steps=steps, attempts=attempts, row_kb=row_kb, index_succeeded=not no_index_succeeded)
    found = size_for(load)
    with exit_on_error():
        if as_json:
            say_json(asdict(load) | asdict(found))
            return
        for label, text in (("load", _in_words(load)), *_lines(found)):
            say(f"{label:13}{text}")


def _in_words(load: Load) -> str:
    attempts = f"{load.attempts:g} attempt{'' if load.attempts == 1 else 's'} per step"
    return f"{load.rate:,.10g} tasks per second, {count(load.steps, 'step')}, {attempts}, rows up to {load.row_kb} KB"


def _lines(found: Size) -> Iterator[tuple[str, str]]:
    at_once = found.shards_at_once
    yield "shards", f"{found.shards}" + (f"; {at_once} to start at this rate at once" if at_once > found.shards else "")
    yield "table", f"{found.table_units:,} write units per second; {_warm(found.warm_table_units)}"
    yield "index", f"{found.index_units:,} write units per second; {_warm(found.warm_index_units)}"
    yield "quota", _quota(found)
    hour, million = found.dollars_per_hour, found.dollars_per_million_tasks
    yield "writes", f"${hour:,.2f} an hour, ${million:,.2f} a million tasks"
    yield "idle worker", f"${found.idle_worker_dollars_per_month:,.2f} a month"


def _warm(units: int | None) -> str:
    return "a new one has them" if units is None else f"warm it to {units:,} to start at once"


def _quota(found: Size) -> str:
    if found.quota_units is None:
        return f"{QUOTA_UNITS:,} write units per second, the default, are enough"
    reason = "" if max(found.table_units, found.index_units) > QUOTA_UNITS else ", for the warm throughput"
    return f"raise table-level write throughput from {QUOTA_UNITS:,} to {found.quota_units:,}{reason}"
