"""`web`: a page about the tasks in the browser, served from this process."""

from __future__ import annotations

import ipaddress
import logging
import secrets
import socket
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from pynamodb_tracker.cli import command
from pynamodb_tracker.cli import options as opt
from pynamodb_tracker.cli.command import CannotRunError
from pynamodb_tracker.cli.terminal import say
from pynamodb_tracker.signals import handling

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_LOCAL = ("127.0.0.1", "localhost", "::1")
_GRACE = 3
"""Seconds that requests get to end after Ctrl-C."""


def web(
    *,
    name: opt.App,
    use_case_name: opt.UseCase = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, metavar="N", help="The port; 0 takes a free one.")] = 8642,
    actions: Annotated[bool, opt.flag("--actions", "Let people reopen and ignore tasks; otherwise read-only.")] = False,
    hide: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="An attribute, or a part of data, whose values are not shown; repeatable."),
    ] = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The address to listen on; others need --host-name.")
    ] = _LOCAL[0],
    host_name: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name under which browsers reach the page; repeatable."),
    ] = None,
) -> None:
    """Serve a page about the tasks for a browser: what waits, what fails and why, and what looking costs.

    It prints an address with a token, which is new at each start: whoever has it can see the page. Nothing can be
    changed there without --actions. What people do is logged on stderr, one line of JSON for each task.

    By default, only this machine can reach it. Other people need encryption and a login of their own: mount the page in
    an app, as the documentation shows.

    Exits with 0 after Ctrl-C or SIGTERM, with 2 if it cannot run.
    """
    from pynamodb_tracker.web import dashboard  # noqa: PLC0415 - an extra, and no other command needs it

    names = [*(host_name or []), *_LOCAL, host]
    if not (host_name or _is_loopback(host)):
        raise typer.BadParameter("name the page for browsers, too: --host-name ops.internal", param_hint="--host")
    with command.use_cases(name, use_case_name) as models:
        token, person = secrets.token_urlsafe(32), opt.person()
        app = dashboard(
            *models, user=lambda _: person, token=token, hosts=names, actions=actions, hide=frozenset(hide or [])
        )
        listening = _listening(host, port)
        shown = f"[{names[0]}]" if ":" in names[0] else names[0]
        address = f"http://{shown}:{listening.getsockname()[1]}/?token={token}"
        say(f"{address}\n{'people can reopen and ignore tasks' if actions else 'read-only'}; Ctrl-C ends it")
        sys.stdout.flush()
        _serve(app, listening)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise CannotRunError(f"cannot listen on {host} port {port}: {error.strerror}: choose another --port") from None


def _serve(app: ASGIApp, listening: socket.socket) -> None:
    """Serve until a signal; the log has no requests, because the first one has the token."""
    import uvicorn  # noqa: PLC0415 - an extra

    log, handler = logging.getLogger("pynamodb_tracker.web"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    config = uvicorn.Config(
        app,
        access_log=False,
        log_level="warning",
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=_GRACE,
    )
    try:
        with handling(dict.fromkeys(("SIGINT", "SIGTERM"), _ended)), listening:
            uvicorn.Server(config).run([listening])
    finally:
        log.removeHandler(handler)


def _ended(_number: int, _frame: object) -> None:
    """Do nothing: uvicorn repeats the signal that has ended it."""
