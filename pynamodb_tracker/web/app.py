"""`dashboard` returns the page as an ASGI app, with its routes and error pages."""

import inspect
from collections.abc import Collection
from datetime import timedelta
from http import HTTPStatus
from typing import Any, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from pynamodb_tracker.exceptions import TaskNotFoundError, TrackerError
from pynamodb_tracker.model.arguments import check_duration, check_flags, shown
from pynamodb_tracker.model.schema import UseCase
from pynamodb_tracker.presentation.errors import for_people
from pynamodb_tracker.task.task import Task
from pynamodb_tracker.web.decisions import Decisions
from pynamodb_tracker.web.guard import Guard, User
from pynamodb_tracker.web.page import DYNAMODB_ERRORS, Authorize, Page, serve_asset, without_suffix
from pynamodb_tracker.web.views import Views
from pynamodb_tracker.web.words import visible

_COMPRESSED_FROM, _LEVEL = 1000, 6  # response size in bytes, and a level that takes half as long as the usual 9

_FAILED = "That didn't work"
_ERRORS: dict[type[Exception], tuple[int, str]] = {
    TaskNotFoundError: (404, "Task not found"),
    TrackerError: (409, _FAILED),
    ValueError: (400, _FAILED),
    OverflowError: (400, _FAILED),
    **dict.fromkeys(DYNAMODB_ERRORS, (502, "DynamoDB refused the request")),
}
"""The status code and title of each error's page."""


def dashboard(
    *models: type[Task],
    user: User | None = None,
    token: str | None = None,
    hosts: Collection[str] | None = None,
    actions: bool = False,
    authorize: Authorize | None = None,
    hide: Collection[str] = (),
    refresh: timedelta = timedelta(seconds=10),
) -> ASGIApp:
    """Return the operators' page as an ASGI app, to mount in your own app behind your login.

    It reads at most 20 read units per second and view, and marks tasks that have been due for more than 15 minutes. For
    scripts, each view is also JSON: add `.json` to its path, or send `Accept: application/json`.

    Args:
        *models: Use cases, or tables for all their imported use cases.
        user: A function of the request, sync or async. It returns the person's name, or None to refuse access.
        token: A secret that the first address must contain as `?token=`. A cookie then replaces it.
        hosts: The host names to accept. By default, your app checks them.
        actions: Whether people can change tasks. By default, the page is read-only.
        authorize: A function that takes an `ActionRequest` and returns True to allow it.
        hide: Names of attributes and signals to hide, or of parts inside them and inside `data`.
        refresh: How often an open page reads DynamoDB again.

    Raises:
        TypeError: Both `user` and `token` are missing, or an argument has the wrong type.
        ValueError: `refresh` is zero, negative or too long.

    Examples:
        >>> app = dashboard(Order, token="a-long-random-text")
    """
    if user is None and not token:
        raise TypeError("a dashboard needs user or token: without one, anyone could see it")
    for name, function in {"user": user, "authorize": authorize}.items():
        if not (function is None or callable(function)):
            raise TypeError(f"{name} must be a function, not {shown(function)}")
    if inspect.iscoroutinefunction(authorize):
        raise TypeError(f"authorize must be a plain function, not async: {shown(authorize)}")
    for name, names in {"hosts": hosts, "hide": hide}.items():
        if isinstance(names, str):
            raise TypeError(f"{name} must be a collection of names, not {shown(names)}: write [{names!r}]")
    check_flags(actions=actions)
    check_duration("refresh", refresh)
    page = Page(_find_use_cases(models), actions, authorize, frozenset(hide), refresh)
    allowed = None if hosts is None else frozenset(map(str.lower, hosts))
    return Guard(_build_app(page), user=user, token=token, hosts=allowed)


def _find_use_cases(models: Collection[object]) -> dict[str, type[Task]]:
    found: dict[str, type[Task]] = {}
    for each in models:
        if not (isinstance(each, type) and issubclass(each, Task) and each.tracker.has_table):
            raise TypeError(f"{shown(each)} is neither a table nor a use case: write dashboard(AppTask, ...)")
        is_one = isinstance(vars(each).get("use_case_id"), UseCase)
        of_table = cast("dict[str, type[Task]]", each.tracker.table.use_cases)
        for model in [each] if is_one else [model for _, model in sorted(of_table.items())]:
            if found.setdefault(model.__name__, model) is not model:
                raise TypeError(f"two use cases have the class name {model.__name__}: rename one of them")
    if not found:
        raise TypeError("no use case is given: write dashboard(Order, ...), or import the table's use cases first")
    return found


def _build_app(page: Page) -> ASGIApp:
    views = Views(page)
    decisions = Decisions(page, views)

    def show_refusal(request: Request, error: HTTPException) -> Response:
        title = {403: "Not allowed", 404: "Page not found"}.get(error.status_code, _FAILED)
        is_own = error.detail != HTTPStatus(error.status_code).phrase
        said = error.detail if is_own else f"{request.method} {visible(request.scope['path'])} does not exist."
        return page.show(request, "message.html", code=error.status_code, of_use_case=False, title=title, said=said)

    def show_error(request: Request, error: Exception) -> Response:
        code, title = next(each for kind, each in _ERRORS.items() if isinstance(error, kind))
        return page.show(request, "message.html", code=code, title=title, said=for_people(error))

    handlers: dict[Any, Any] = {HTTPException: show_refusal, **dict.fromkeys(_ERRORS, show_error)}
    app = Starlette(
        routes=[
            Route("/static/{name}", serve_asset),
            Route("/", views.show_now),
            Route("/find", views.find),
            Route("/table", views.table),
            Route("/workers", views.workers),
            Route("/{use_case}", views.without_slash),
            Route("/{use_case}/", views.show_now),
            Route("/{use_case}/tasks", views.list_tasks),
            Route("/{use_case}/errors", views.errors),
            Route("/{use_case}/schedules", views.schedules),
            Route("/{use_case}/task", views.show_task),
            Route("/{use_case}/group", views.group),
            Route("/{use_case}/bulk", decisions.plan, methods=["GET"]),
            Route("/{use_case}/bulk", decisions.bulk, methods=["POST"]),
            *(Route(f"/{{use_case}}/{view}", decisions.decide, methods=["POST"]) for view in ("", "tasks", "task")),
            Route("/{use_case}/count", decisions.count, methods=["POST"]),
        ],
        exception_handlers=handlers,
        middleware=[Middleware(GZipMiddleware, minimum_size=_COMPRESSED_FROM, compresslevel=_LEVEL)],
    )
    # Starlette would redirect to an absolute address, with http behind a proxy.
    app.router.redirect_slashes = False

    async def as_html_or_json(scope: Scope, receive: Receive, send: Send) -> None:
        await app(without_suffix(dict(scope), page.models), receive, send)

    return as_html_or_json
