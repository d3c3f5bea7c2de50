"""Fingerprints of step payloads, and stored step results.

Each step has its own attributes for both, such as `payload#200` and `result#200`, which only it writes.
"""

import hashlib
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from pynamodb.constants import STRING

from pynamodb_tracker.model import strict_json
from pynamodb_tracker.model.data import bounded_json
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.model.row_state import unreadable_error

MAX_BYTES = 262_144
"""The longest result as JSON, equal to Step Functions' payload limit. Each write to the row pays for it.
https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html"""

_VERSION = "1"  # fingerprints with different versions cannot be compared


def result_attribute(number: int) -> str:
    return f"result#{number}"


def payload_attribute(number: int) -> str:
    return f"payload#{number}"


def is_reserved(stored_name: str) -> bool:
    return stored_name.startswith(("result#", "payload#"))


def result_text(value: object, task_id: str) -> str | None:
    if value is None:
        return None
    described, advice = f"the result of {task_id!r}", "put it into an object store, and return its key"
    return bounded_json(value, "the result", described, MAX_BYTES, advice, task_id=task_id, attribute="result")


def load_result(row: TaskRow, number: int) -> Any:
    name = result_attribute(number)
    value = row._row_state.stored.get(name)
    try:
        return None if value is None else json.loads(value[STRING])
    except (KeyError, ValueError) as error:
        raise unreadable_error(type(row), row.task_id, {name: error}) from error


def fingerprint(payload: object) -> str:
    """Return a short text that is equal for equal payloads. Key order and number formats do not matter.

    Raise TypeError for a value that is neither JSON nor a Decimal, and ValueError for deep nesting.
    """
    text = strict_json.dumps(_canonicalize(payload, "must_match"), sort_keys=True, separators=(",", ":"))
    return f"{_VERSION}:{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def _canonicalize(value: object, path: str, depth: int = 1) -> object:
    """Write equal numbers in the same way, such as 3, 3.0 and Decimal("3.00")."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return f"s{str.__str__(value)}"  # an enum member becomes its text
    if isinstance(value, int | float | Decimal):
        return f"n{_format_digits(value)}"
    if isinstance(value, Mapping | list | tuple) and depth > strict_json.MAX_DEPTH:
        raise ValueError(f"{strict_json.too_deep('must_match')}, or contains itself: pass a part of it")
    if isinstance(value, Mapping):
        if wrong := [key for key in value if not isinstance(key, str)]:
            raise TypeError(f"{path} has the key {wrong[0]!r}: keys are strings in JSON")
        return {key: _canonicalize(entry, f"{path}[{key!r}]", depth + 1) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_canonicalize(entry, f"{path}[{place}]", depth + 1) for place, entry in enumerate(value)]
    raise TypeError(f"{path} is a {type(value).__name__}: JSON has text, numbers, booleans, None, lists and dicts")


def _format_digits(number: float | Decimal) -> str:
    decimal = Decimal(float.__repr__(number)) if isinstance(number, float) else Decimal(number)
    sign, digits, exponent = decimal.as_tuple()
    if not isinstance(exponent, int):
        return str(decimal)  # NaN or infinite
    text = "".join(map(str, digits))
    significant = text.rstrip("0")
    return f"{'-' * sign}{significant}e{exponent + len(text) - len(significant)}" if significant else "0"
