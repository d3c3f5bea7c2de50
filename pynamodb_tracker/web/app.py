"""`dashboard`: the page as an ASGI app, with its routes and error pages."""

from __future__ import annotations

import inspect
from collections.abc import Collection
from datetime import timedelta
from http import HTTPStatus
from typing import Any, cast

from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.exceptions import PynamoDBException
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from pynamodb_tracker.arguments import check_duration, check_flags, shown
from pynamodb_tracker.exceptions import TaskNotFoundError, TrackerError
from pynamodb_tracker.model.schema import UseCase
from pynamodb_tracker.presentation.errors import for_people
from pynamodb_tracker.task.task import Task
from pynamodb_tracker.web import assets, json_form
from pynamodb_tracker.web.decisions import Decisions
from pynamodb_tracker.web.guard import Guard, User
from pynamodb_tracker.web.page import Authorize, Page, Settings
from pynamodb_tracker.web.views import Views
from pynamodb_tracker.web.words import visible

_WORTH_PACKING = 1000
"""Bytes from which on a response is compressed."""

_TITLES = {403: "This is not allowed", 404: "There is no such page"}

_CODES: dict[type[Exception], int] = {
    TaskNotFoundError: 404,
    TrackerError: 409,
    ValueError: 400,
    OverflowError: 400,
    PynamoDBException: 502,
    BotoCoreError: 502,
    ClientError: 502,
}
"""Status codes of errors: refusals of the library, wrong arguments, and failures of DynamoDB."""


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
    """Return a page for operators about these use cases, or about all use cases of these tables, as an ASGI app.

    Mount it in your own app, behind your own login. The page asks DynamoDB for at most 20 read units a second and view.
    It marks tasks that have been due for more than 15 minutes. For scripts, each view is also JSON: add `.json` to its
    path, or send `Accept: application/json`.

    Args:
        *models: Use cases, or tables for all their imported use cases.
        user: A function of the request, async or not, that returns the name of the person who asks, or None if that
            person may not see the page.
        token: A secret that the first address must have as `?token=`. A cookie replaces it.
        hosts: The names under which the page is served. By default, your app checks them.
        actions: Whether people can change tasks. By default, the page is read-only.
        authorize: A function of an `ActionRequest` that returns True if the person may do it.
        hide: Names of attributes, signals, and parts of them and of `data`, whose values nobody sees.
        refresh: How often the page asks DynamoDB again while somebody looks.

    Raises:
        TypeError: There is neither a `user` nor a `token`, or an argument has the wrong type.
        ValueError: `refresh` is not allowed.

    Examples:
        >>> app = dashboard(Order, token="a-long-random-text")
    """
    if user is None and not token:
        raise TypeError("a dashboard needs user, a function that says who asks, or a token: without, all could see it")
    for name, function in {"user": user, "authorize": authorize}.items():
        if not (function is None or callable(function)):
            raise TypeError(f"{name} must be a function, not {shown(function)}")
    if inspect.iscoroutinefunction(authorize):
        raise TypeError(f"authorize must be a plain function: the page does not await {shown(authorize)}")
    for name, names in {"hosts": hosts, "hide": hide}.items():
        if isinstance(names, str):
            raise TypeError(f"{name} must be a collection of names, not {shown(names)}: write [{names!r}]")
    check_flags(actions=actions)
    settings = Settings(
        _use_cases(models),
        actions=actions,
        authorize=authorize,
        hide=frozenset(hide),
        refresh=check_duration("refresh", refresh),
    )
    allowed = None if hosts is None else frozenset(map(str.lower, hosts))
    return Guard(_app(Page(settings)), user=user, token=token, hosts=allowed)


def _use_cases(given: Collection[object]) -> dict[str, type[Task]]:
    found: dict[str, type[Task]] = {}
    for each in given:
        if not (isinstance(each, type) and issubclass(each, Task) and each.tracker.has_table):
            raise TypeError(f"{shown(each)} is neither a table nor a use case: write dashboard(AppTask, ...)")
        is_one = isinstance(vars(each).get("use_case_id"), UseCase)
        of_table = cast("dict[str, type[Task]]", each.tracker.table.use_cases)
        for model in [each] if is_one else [model for _, model in sorted(of_table.items())]:
            if found.setdefault(model.__name__, model) is not model:
                raise TypeError(f"two use cases are classes of the name {model.__name__}: rename one of them")
    if not found:
        raise TypeError(
            "no use case is given: write dashboard(Order, ...), or import the use cases of the table before"
        )
    return found


def _app(page: Page) -> ASGIApp:
    views = Views(page)
    decisions = Decisions(page, views)

    def show_refusal(request: Request, error: HTTPException) -> Response:
        title = _TITLES.get(error.status_code, "This does not work")
        is_own = error.detail != HTTPStatus(error.status_code).phrase
        said = error.detail if is_own else f"Nothing is at {request.method} {visible(request.scope['path'])}."
        return page.show(request, "message.html", code=error.status_code, title=title, said=said)

    def show_error(request: Request, error: Exception) -> Response:
        code = next(code for kind, code in _CODES.items() if isinstance(error, kind))
        titles = {404: "There is no such task", 502: "DynamoDB refuses this"}
        model = page.settings.models.get(request.path_params.get("use_case", ""))
        title = titles.get(code, "This does not work")
        return page.show(request, "message.html", model=model, code=code, title=title, said=for_people(error))

    handlers: dict[Any, Any] = {HTTPException: show_refusal, **dict.fromkeys(_CODES, show_error)}
    app = Starlette(
        routes=[
            Route("/static/{name}", assets.serve),
            Route("/", views.home),
            Route("/find", views.find),
            Route("/table", views.table),
            Route("/workers", views.workers),
            Route("/{use_case}", views.without_slash),
            Route("/{use_case}/", views.overview),
            Route("/{use_case}/tasks", views.tasks),
            Route("/{use_case}/errors", views.errors),
            Route("/{use_case}/schedules", views.schedules),
            Route("/{use_case}/task", views.task),
            Route("/{use_case}/group", views.group),
            Route("/{use_case}/bulk", decisions.plan, methods=["GET"]),
            Route("/{use_case}/bulk", decisions.bulk, methods=["POST"]),
            *(Route(f"/{{use_case}}/{view}", decisions.decide, methods=["POST"]) for view in ("", "tasks", "task")),
            Route("/{use_case}/count", decisions.count, methods=["POST"]),
        ],
        exception_handlers=handlers,
        middleware=[Middleware(GZipMiddleware, minimum_size=_WORTH_PACKING)],
    )
    # Starlette would redirect to an absolute address with the request's host, and with http behind a proxy.
    app.router.redirect_slashes = False

    async def as_html_or_json(scope: Scope, receive: Receive, send: Send) -> None:
        await app(json_form.without_suffix(dict(scope), page.settings.models), receive, send)

    return as_html_or_json
