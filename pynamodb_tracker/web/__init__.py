"""A page in the browser about the tasks of a table, as an ASGI app; it needs the extra `web`."""

from pynamodb_tracker.web.app import dashboard

__all__ = ["dashboard"]
