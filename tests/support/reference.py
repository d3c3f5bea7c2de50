"""The public objects and their members."""

from typing import Any

import pynamodb_tracker
from pynamodb_tracker import apscheduler, aws_lambda, instrumentation, opentelemetry, testing, web
from tests.support.pages import ROOT, Page

REFERENCE = Page(ROOT / "docs" / "reference.md")
OBJECTS: dict[str, Any] = {name: getattr(pynamodb_tracker, name) for name in pynamodb_tracker.__all__}
OBJECTS |= {
    name: getattr(module, name)
    for module in (apscheduler, aws_lambda, instrumentation, opentelemetry, testing, web)
    for name in module.__all__
}
_INTERNAL = {
    *(
        "allow_from",
        "codes_to_do",
        "codes_to_start_from",
        "feed",
        "of",
        "over",
        "to",
        *("seconds_until", "sleep", "sleep_unless", "wait", "wait_async"),
    ),  # used by the library's own modules
    *("DoesNotExist", "deserialize", "from_raw_data", "status_index", "tracker", "tracker_attributes"),
    *(
        "get_delete_kwargs_from_instance",
        "get_save_kwargs_from_instance",
        "get_update_kwargs_from_instance",
    ),  # PynamoDB's
}


def public_members(about: Any) -> set[str]:
    """Return the names of a class's public members."""
    ours = [kind for kind in about.__mro__ if kind.__module__.startswith("pynamodb_tracker.")]
    names = {member for kind in ours for member in (*vars(kind), *vars(kind).get("__annotations__", ()))}
    return {name for name in names if not name.startswith("_")} - _INTERNAL
