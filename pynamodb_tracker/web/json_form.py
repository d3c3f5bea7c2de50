"""The JSON form of the views for scripts: the context of their templates under the same names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

TYPE = "application/json"
SUFFIX = ".json"
_BY_SUFFIX = "pynamodb_tracker.json"

OF_FORMS = frozenset({"picture", "given", "selected", "pages", "most_shown", "sendable", "sends"})
"""Only forms and links need these."""


def without_suffix(scope: dict[str, Any], use_cases: Mapping[str, object]) -> dict[str, Any]:
    """Return the scope of a request without `.json` at the end of its path, and with a mark that it was there."""
    if not scope["path"].endswith(SUFFIX):
        return scope
    path = scope["path"].removesuffix(SUFFIX)
    return scope | {"path": path + "/" * (path.rpartition("/")[2] in use_cases), _BY_SUFFIX: True}


def is_wanted(request: Request) -> bool:
    """Return whether a request asks for JSON by its path or its Accept header."""
    accepted = request.headers.get("accept", "")
    return is_by_suffix(request) or (TYPE in accepted and "text/html" not in accepted)


def is_by_suffix(request: Request) -> bool:
    """Return whether the path of a request asks for JSON."""
    return bool(request.scope.get(_BY_SUFFIX))
