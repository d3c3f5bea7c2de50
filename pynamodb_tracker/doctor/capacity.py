"""Capacity: how many tasks a second the table can take, where it has a limit of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pynamodb_tracker.doctor.description import Description
from pynamodb_tracker.doctor.finding import Finding, Severity
from pynamodb_tracker.model.row import StatusIndex

__all__ = ["in_capacity"]

_TABLE, _INDEX = 3, 5
"""Write units to create and run a task of one step, in the table and in the index, for a row up to 1 KB."""

_FEW = 10
"""Tasks a second below which it is worth a word."""

_NO_LIMIT = -1


def in_capacity(description: Description) -> Iterator[Finding]:
    """Yield a limit that few tasks a second reach; a slow index throttles the table, too.

    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.html#GSI.ThroughputConsiderations.Writes
    """
    table, index = description.table, description.indexes.get(StatusIndex.Meta.index_name, {})
    on_demand = table.get("BillingModeSummary", {}).get("BillingMode") == "PAY_PER_REQUEST"
    units = {name: _write_units(each, on_demand=on_demand) for name, each in (("table", table), ("index", index))}
    limits = [count // cost for count, cost in zip(units.values(), (_TABLE, _INDEX), strict=True) if count is not None]
    rate = min(limits, default=_FEW)
    if rate < _FEW:
        told = " and ".join(f"{name} {count}" for name, count in units.items() if count is not None)
        scaling = "" if on_demand else ", unless auto scaling raises it"
        yield Finding(
            Severity.ADVICE,
            "write capacity",
            f"{'on demand, at most ' if on_demand else 'provisioned, '}{told} units a second",
            "on demand without a limit, or more units",
            f"Creating a task and running one step of it takes {_TABLE} units of the table and {_INDEX} of the index, "
            f"for a row up to 1 KB. That is {rate or 'less than one'} a second{scaling}; DynamoDB throttles the rest.",
            "Let UpdateTable switch the table to on demand, or raise the limits of the table and of the index.",
        )


def _write_units(described: Mapping[str, Any], *, on_demand: bool) -> int | None:
    """Return the limit, None where there is none."""
    if on_demand:
        units = described.get("OnDemandThroughput", {}).get("MaxWriteRequestUnits", _NO_LIMIT)
    else:
        units = described.get("ProvisionedThroughput", {}).get("WriteCapacityUnits", _NO_LIMIT)
    return None if units == _NO_LIMIT else int(units)
