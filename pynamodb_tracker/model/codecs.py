"""The stored forms of a row's lists, parts, traces and rules. Damaged ones raise a ValueError."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pynamodb.constants import NUMBER, STRING

from pynamodb_tracker.arguments import shown

if TYPE_CHECKING:
    from pynamodb_tracker.model.repeat import LastRun, Repeat

MOST = 9_999_999_999  # of codes and counts


def encode_numbers(numbers: list[int]) -> list[dict[str, str]]:
    return [{NUMBER: str(number)} for number in numbers]


def decode_numbers(stored: list[dict[str, str]]) -> list[int]:
    numbers = []
    for entry in stored:  # fast, because almost every claimed row has one
        number = int(entry[NUMBER]) if NUMBER in entry else -1
        if not 0 <= number <= MOST:
            raise ValueError(f"its entry {shown(entry)} is not a number from 0 to {MOST:,}")
        numbers.append(number)
    return numbers


def encode_texts(texts: list[str]) -> list[dict[str, str]]:
    return [{STRING: text} for text in texts]


def decode_texts(stored: list[dict[str, str]]) -> list[str]:
    if wrong := [entry for entry in stored if STRING not in entry]:
        raise ValueError(f"its entry {shown(wrong[0])} is not text")
    return [text[STRING] for text in stored]


def encode_parts(parts: dict[str, str]) -> dict[str, dict[str, str]]:
    return {name: {STRING: text} for name, text in parts.items()}


def decode_parts(stored: dict[str, dict[str, str]]) -> dict[str, str]:
    """Return checkpoint results as JSON, and their `round`."""
    parts = {name: entry[STRING] for name, entry in stored.items() if STRING in entry}
    if len(parts) != len(stored) or "round" not in parts:
        raise ValueError(f"it has {shown(sorted(stored))} instead of results and their round")
    for name in parts.keys() - {"round"}:
        json.loads(parts[name])
    return parts


def decode_trace(stored: str) -> dict[str, str]:
    trace = json.loads(stored)
    if not isinstance(trace, dict) or not all(isinstance(text, str) for text in trace.values()):
        raise ValueError(f"{shown(stored)} is not a dictionary of text")
    return trace


def decode_rule(stored: str) -> Repeat:
    from pynamodb_tracker.model.repeat import Repeat  # noqa: PLC0415 - few tasks repeat

    return Repeat.from_json(stored)


def decode_last_run(stored: str) -> LastRun:
    from pynamodb_tracker.model.repeat import LastRun  # noqa: PLC0415 - few tasks repeat

    return LastRun.read(stored)
