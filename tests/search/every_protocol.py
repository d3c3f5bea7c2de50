"""The protocols that are searched."""

from tests.search import (
    cancelling,
    expired,
    groups,
    joins,
    limits,
    merging,
    missed,
    repeating,
    required,
    runs,
    signals,
    waits,
)

PROTOCOLS = [runs, merging, joins, signals, waits, groups, limits, repeating, missed, expired, required, cancelling]
