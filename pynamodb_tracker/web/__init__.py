"""A web page about the tasks of a table, as an ASGI app. It needs the extra `web`."""

from pynamodb_tracker.exceptions import INSTALLABLE

try:
    from pynamodb_tracker.web.app import dashboard
    from pynamodb_tracker.web.page import ActionRequest
except ImportError as error:
    if (error.name or "").startswith("pynamodb_tracker"):
        raise
    raise ImportError(f"the page needs {error.name}: pip install '{INSTALLABLE}[web]'") from error

__all__ = ["ActionRequest", "dashboard"]
