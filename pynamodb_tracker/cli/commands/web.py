"""`web`: serve a page about the tasks from this process."""

import ipaddress
from typing import Annotated

import typer

from pynamodb_tracker.cli import options as opt
from pynamodb_tracker.cli.command import UseCases
from pynamodb_tracker.cli.page_server import LOCAL, PageServer
from pynamodb_tracker.cli.terminal import flush, say


@opt.for_use_cases
def web(
    among: UseCases,
    *,
    port: opt.Port = opt.PORT,
    actions: Annotated[bool, opt.flag("--actions", "Let people change tasks and pause steps.")] = False,
    hide: Annotated[
        list[str] | None, opt.value("NAME", "Hide the values of this attribute or key of data. Repeatable.")
    ] = None,
    host: Annotated[str, opt.value("ADDRESS", "The address to listen on. Others need --host-name.")] = LOCAL[0],
    host_name: Annotated[
        list[str] | None, opt.value("NAME", "A name under which browsers reach the page. Repeatable.")
    ] = None,
) -> None:
    """Serve a web page about the tasks.

    Anyone with the printed address can see the page, but only --actions lets people change anything. Changes are logged
    on stderr, one line of JSON per task.

    Only this machine can reach the page. To give other people access, mount it in an app with encryption and a login,
    as the documentation shows.

    Exits with 0 after Ctrl-C or SIGTERM, with 2 if it cannot run.
    """
    import pynamodb_tracker.web  # noqa: PLC0415, F401 - an extra: reported first if it is missing

    if not (host_name or _is_loopback(host)):
        raise typer.BadParameter("name the page for browsers, too: --host-name ops.internal", param_hint="--host")
    server = PageServer(host, port, host_name or ())
    can = "people can change tasks, send signals and pause steps" if actions else "read-only"
    say(f"{server.address}\n{can} (Ctrl-C quits)")
    flush()
    server.serve(among.models, actions=actions, hide=hide or ())


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
