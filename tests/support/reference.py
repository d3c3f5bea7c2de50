"""The reference: the public objects, and the members that its tables tell of them.

It has a section per object, and in the first column of its tables a member with its parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pynamodb_tracker
from pynamodb_tracker import apscheduler, aws_lambda, instrumentation, opentelemetry, testing, web
from tests.support.pages import ROOT, Page

__all__ = ["INTERNAL", "OBJECTS", "REFERENCE", "members"]

REFERENCE = Page(ROOT / "docs" / "reference.md")
OBJECTS: dict[str, Any] = {name: getattr(pynamodb_tracker, name) for name in pynamodb_tracker.__all__}
OBJECTS |= {
    name: getattr(module, name)
    for module in (apscheduler, aws_lambda, instrumentation, opentelemetry, testing, web)
    for name in module.__all__
}
INTERNAL = {
    *(
        "allow_from",
        "codes_to_do",
        "codes_to_start_from",
        "feed",
        "of",
        "over",
        "to",
    ),  # of the library among its own modules
    *("DoesNotExist", "deserialize", "from_raw_data", "status_index", "tracker", "tracker_attributes"),
    *(
        "get_delete_kwargs_from_instance",
        "get_save_kwargs_from_instance",
        "get_update_kwargs_from_instance",
    ),  # PynamoDB's
}


def members() -> Iterator[tuple[Any, str]]:
    """Yield the rows of the reference's tables: the object of its section, and what its first column quotes."""
    about: Any = None
    for line in REFERENCE.prose():
        if line.startswith("#"):
            heading = re.match(r"#+ `(\w+)`", line)
            about = OBJECTS[heading[1]] if heading else None
        elif about is not None and (row := re.match(r"\| `([^`]+)`", line)):
            yield about, row[1]
