"""The answers of a query or a scan of the index, page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from pynamodb_tracker.dynamodb.transport import insistently

__all__ = ["pages"]


def pages(
    read: Callable[..., dict[str, Any]], *args: Any, start: Any = None, **options: Any
) -> Iterator[dict[str, Any]]:
    """Yield the answers of a query or a scan, each asked for when it is wanted."""
    while True:
        page = insistently(partial(read, *args, exclusive_start_key=start, **options))
        yield page
        start = page.get("LastEvaluatedKey")
        if not start:
            return
