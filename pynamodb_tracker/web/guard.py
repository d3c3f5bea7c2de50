"""Checks each request's host, login and origin, and adds security headers to responses.

A refusal is plain text. Only `/healthz` works without a login, and it reveals nothing.
"""

import hashlib
import hmac
import inspect
from collections.abc import Awaitable, Callable
from urllib.parse import quote, urlencode, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pynamodb_tracker.model.arguments import shown

User = Callable[[Request], str | Awaitable[str | None] | None]
"""Returns the person's name, or None to refuse access. It may be async."""

_WHO = "pynamodb_tracker.who"
_ANONYMOUS = "web"
"""The name of everybody who logs in with a token."""
_SAFE = ("GET", "HEAD")

_CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
"""Forbids inline scripts and styles, other hosts, and frames (https://www.w3.org/TR/CSP3/)."""

HEADERS = {
    "Content-Security-Policy": _CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
"""Sent with every response, including refusals."""


def who(request: Request) -> str:
    name: str = request.scope[_WHO]
    return name


class Guard:
    """An ASGI app that checks each request before the page handles it."""

    def __init__(self, app: ASGIApp, *, user: User | None, token: str | None, hosts: frozenset[str] | None) -> None:
        self._app = app
        self._user = user
        self._token = token
        self._hosts = hosts
        # The cookie proves the token without containing it. Its name differs per token, because ports share cookies.
        self._session = _digest(token or "", "session")
        self._cookie = f"pynamodb_tracker_{_digest(token or '', 'name')[:8]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        response = await self._check(Request(scope))
        await (response or self._app)(scope, receive, send_with_headers)

    async def _check(self, request: Request) -> Response | None:
        """Return a refusal or a login's redirect, or None to accept the request."""
        if request.scope["path"] == f"{root_path(request)}/healthz" and request.method in _SAFE:
            return PlainTextResponse("ok")
        if refusal := self._check_origin(request):
            return refusal
        if self._token is not None and (response := self._login(request, self._token)):
            return response
        name = _ANONYMOUS if self._user is None else await _find_name(self._user, request)
        if not name:
            return PlainTextResponse("refused: you may not see this page", 403)
        request.scope[_WHO] = name
        return None

    def _check_origin(self, request: Request) -> Response | None:
        host = request.headers.get("host", "")
        if self._hosts is not None and (name := _host_name(host)) not in self._hosts:
            # Otherwise, another site could let its name resolve to this address and read everything.
            return PlainTextResponse(f"refused: to serve this page as {name!r}, add --host-name", 421)
        if request.method not in _SAFE and not _is_own(request.headers, host):
            return PlainTextResponse("refused: the request came from another site", 403)
        return None

    def _login(self, request: Request, token: str) -> Response | None:
        """Return None for the right cookie, a redirect that sets it for the right token, or a refusal."""
        given = request.query_params.getlist("token")
        if request.method in _SAFE and any(_is_same(each, token) for each in given):
            others = urlencode([each for each in request.query_params.multi_items() if each[0] != "token"])
            path = "/" + quote(request.scope["path"]).lstrip("/")  # two slashes would begin with another host
            answer = RedirectResponse(path + (f"?{others}" if others else ""), 303)
            answer.headers["Referrer-Policy"] = "no-referrer"
            answer.set_cookie(
                self._cookie,
                self._session,
                path=root_path(request) or "/",
                secure=request.scope["scheme"] == "https",
                httponly=True,
                samesite="lax",  # links from a chat work, forms from other sites don't
            )
            return answer
        if _is_same(request.cookies.get(self._cookie, ""), self._session):
            return None
        return PlainTextResponse("log in with the address that pynamodb-tracker web printed", 401)


async def _find_name(user: User, request: Request) -> str | None:
    name = await run_in_threadpool(user, request)
    if inspect.isawaitable(name):
        name = await name
    if not (name is None or isinstance(name, str)):
        raise TypeError(f"user must return a name or None, not {shown(name)}")
    return name


def root_path(request: Request) -> str:
    """Return the path where the page is mounted, without a trailing slash."""
    path: str = request.scope.get("root_path", "")
    return path.rstrip("/")


def _digest(token: str, purpose: str) -> str:
    return hmac.new(token.encode(), purpose.encode(), hashlib.sha256).hexdigest()


def _is_same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), wanted.encode())


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:  # brackets without an IPv6 address
        return ""


def _is_own(headers: Headers, host: str) -> bool:
    """Return whether this page's own form or script sent the request.

    Browsers say so in Sec-Fetch-Site. Over plain HTTP, except to localhost, they send only the Origin:
    https://www.w3.org/TR/fetch-metadata/
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = urlsplit(headers.get("origin", ""))
    return origin.scheme in ("http", "https") and origin.netloc == host
