"""HTTP requests of API Gateway, function URLs and load balancers, and their responses.

REST APIs have format 1.0, HTTP APIs and function URLs 2.0, and load balancers a format like 1.0. One form of response
suits them all:
https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html
https://docs.aws.amazon.com/apigateway/latest/developerguide/set-up-lambda-proxy-integrations.html
https://docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html
https://docs.aws.amazon.com/elasticloadbalancing/latest/application/lambda-functions.html
"""

import base64
import json
import math
from collections.abc import Mapping
from typing import Any

from pynamodb_tracker.aws_lambda.result import Invocation
from pynamodb_tracker.model import strict_json

# The status codes of results, unless the content has a `statusCode`.
_CODES: Mapping[str, int] = (
    {"succeeded": 200, "unreadable": 400, "not_found": 404, "cancelled": 410, "failed": 500}
    | dict.fromkeys(("locked", "not_ready", "waits"), 409)
    | dict.fromkeys(("ignored", "mismatch"), 422)
    | dict.fromkeys(("paused", "limited", "released", "unavailable"), 503)
)


class _Headers(dict[str, str]):
    """A request's headers. Names match in any case."""

    def __getitem__(self, name: str) -> str:
        return super().__getitem__(name.lower())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and super().__contains__(name.lower())

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name.lower(), default)


def is_request(event: object) -> bool:
    if not isinstance(event, Mapping):
        return False
    context = event.get("requestContext")
    return isinstance(context, Mapping) and ("http" in context or "httpMethod" in event)


def read_request(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request with its body decoded, and parsed if it is JSON. Raise ValueError for invalid JSON."""
    headers = event.get("headers")
    if headers is None:  # a load balancer that sends lists of values
        headers = {name: ",".join(values) for name, values in (event.get("multiValueHeaders") or {}).items()}
    headers = _Headers({name.lower(): value for name, value in headers.items()})
    return {**event, "headers": headers, "body": _body_of(event, headers), "isBase64Encoded": False}


def response(event: Mapping[str, Any], result: Invocation[Any], content: object) -> dict[str, Any]:
    """Return the response with the content as JSON, or the content itself if it has a `statusCode`."""
    headers = {"content-type": "application/json"}
    if result.retry_after is not None:
        headers["retry-after"] = str(max(1, math.ceil(result.retry_after.total_seconds())))
    # It is a conflict if a run has skipped the step.
    code = 409 if getattr(result.error, "skipped", False) else _CODES[result.status]
    given: Mapping[str, Any] = {"statusCode": code, "body": content}
    body: object = text_of(content)
    status = content.get("statusCode") if isinstance(content, Mapping) else None
    if isinstance(content, Mapping) and isinstance(status, int) and not isinstance(status, bool):
        given, body = content, content.get("body")
        body = "" if body is None else body
        listed = {name.lower() for name in content.get("multiValueHeaders") or {}}
        headers = {name: value for name, value in headers.items() if name not in listed}
        headers |= {name.lower(): value for name, value in (content.get("headers") or {}).items()}
        if not isinstance(body, str):
            body = text_of(body)
    answered = {"isBase64Encoded": False, **given, "headers": headers, "body": body}
    if "headers" not in event and "multiValueHeaders" in event:  # a load balancer that reads only these
        del answered["headers"]
        single = {name: [value] for name, value in headers.items()}
        answered["multiValueHeaders"] = single | (given.get("multiValueHeaders") or {})
    return answered


def text_of(content: object) -> str:
    """Return JSON. Raise ValueError or TypeError if it cannot express the content."""
    return strict_json.dumps(content, ensure_ascii=False, default=str)


def _body_of(event: Mapping[str, Any], headers: _Headers) -> Any:
    """Return the body: JSON's value, or else text or bytes. None if it is empty."""
    body = event.get("body")
    if not body:
        return None
    if event.get("isBase64Encoded"):
        body = base64.b64decode(body, validate=True)
    try:
        return json.loads(body)
    except ValueError:
        if "json" in headers.get("content-type", ""):
            raise
    try:
        return body.decode() if isinstance(body, bytes) else body
    except UnicodeDecodeError:
        return body
