"""Calls other systems, with an idempotency key that makes it safe to repeat a call."""

import json
import os
import urllib.error
import urllib.request
from http import HTTPStatus
from typing import Any

_TIMEOUT = 5
"""Seconds without data from the other side. Ten such calls in a batch fit into a function's 60 seconds."""

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
"""Refusals that are temporary or caused by our settings, such as a changed secret or a wrong URL. A conflict means that
another request with the same key is in progress."""


class RefusedError(Exception):
    """The other system refuses, and retrying would not help."""


def post(service: str, path: str, key: str, body: dict[str, Any]) -> dict[str, Any]:
    """Send a request to a service and return its response. A repeated key has no effect and returns the same response.

    Args:
        service: The environment variable with the service's URL.
        path: The path below that URL.
        key: The idempotency key.
        body: The request, sent as JSON.

    Raises:
        RefusedError: Retrying would not help.
        URLError, TimeoutError: Retrying may help.
    """
    request = urllib.request.Request(  # noqa: S310 - the URL is the operator's, from the template
        f"{os.environ[service]}/{path}",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "Idempotency-Key": key},
        method="POST",
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:  # noqa: S310 - as above
            found: dict[str, Any] = json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            if _BAD_REQUEST <= error.code < _BROKEN_SERVER and error.code not in _TRY_AGAIN:
                raise RefusedError(f"{service} refused {path}: HTTP {error.code} {error.reason}") from error
            raise
    return found
