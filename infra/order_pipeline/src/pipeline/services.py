"""The other systems: a call carries a key by which they know it when it comes again."""

import json
import os
import urllib.error
import urllib.parse
import urllib.request
from http import HTTPStatus
from typing import Any

__all__ = ["RefusedError", "post"]

_TIMEOUT = 5
"""Seconds without a sign of the other side; ten such calls, a batch, fit into the 60 seconds of a function."""

_BAD_REQUEST, _BROKEN_SERVER = HTTPStatus.BAD_REQUEST, HTTPStatus.INTERNAL_SERVER_ERROR

_TRY_AGAIN = {
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.CONFLICT,
    HTTPStatus.TOO_EARLY,
    HTTPStatus.TOO_MANY_REQUESTS,
}
"""Refusals that pass, or are ours, such as a secret that was changed and a wrong URL: no order is to blame for them. A
conflict is the same key, under way at this moment."""


class RefusedError(Exception):
    """The other system will not do it, however often it is asked."""


def post(service: str, path: str, key: str, body: dict[str, Any]) -> dict[str, Any]:
    """Have a service do something once, and return its answer; for the same key it gives the same answer again.

    `service` names the environment variable that has its URL. RefusedError where it refuses for good; what is worth
    another attempt is a URLError or a timeout.
    """
    request = urllib.request.Request(  # noqa: S310 - the URL is the operator's, from the template
        f"{os.environ[service]}/{path}",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "Idempotency-Key": urllib.parse.quote(key)},
        method="POST",
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:  # noqa: S310 - as above
            found: dict[str, Any] = json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            if _BAD_REQUEST <= error.code < _BROKEN_SERVER and error.code not in _TRY_AGAIN:
                raise RefusedError(f"{service} refused {path} for {key}: HTTP {error.code} {error.reason}") from error
            raise
    return found
