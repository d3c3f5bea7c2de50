"""Records the requests that part of a test sends, and their responses."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pynamodb_tracker import Task
from tests.support.rows import client
from tests.support.shop import AppTask

_NO_NAMES = {"SET", "REMOVE", "AND", "OR", "NOT", "IN", "BETWEEN", "attribute_exists", "attribute_not_exists"}


@dataclass
class Request:
    operation: str
    body: dict[str, Any]
    answer: dict[str, Any] = field(default_factory=dict)

    @property
    def names(self) -> set[str]:
        """The attributes that its expressions name."""
        return {name for key in self.body if key.endswith("Expression") for name in self._names_in(key)}

    @property
    def written(self) -> set[str]:
        """The attributes that its update writes."""
        return self._names_in("UpdateExpression")

    def _names_in(self, expression: str) -> set[str]:
        aliases = self.body.get("ExpressionAttributeNames", {})
        words = re.findall(r"(?<!:)[#\w]+", self.body.get(expression, ""))
        return {aliases.get(word, word) for word in words} - _NO_NAMES


class Requests(list[Request]):
    @property
    def operations(self) -> list[str]:
        return [request.operation for request in self]

    @property
    def entries_read(self) -> int:
        """How many index entries queries have read, which is what they cost."""
        return sum(request.answer["ScannedCount"] for request in self if request.operation == "Query")


@contextmanager
def recorded(table: type[Task] = AppTask) -> Iterator[Requests]:
    """Yield the list of requests that this block sends to a table."""
    requests = Requests()

    def before(model: Any, params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        context["recorded"] = Request(model.name, json.loads(params["body"]))
        requests.append(context["recorded"])

    def after(parsed: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        context["recorded"].answer = parsed

    events = client(table).meta.events
    events.register("before-call.dynamodb", before)
    events.register("after-call.dynamodb", after)
    try:
        yield requests
    finally:
        events.unregister("before-call.dynamodb", before)
        events.unregister("after-call.dynamodb", after)
