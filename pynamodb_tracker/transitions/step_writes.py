"""What the writes of a step have in common: each is rendered once, and moves the task to a state."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from itertools import chain
from typing import Any, Generic, TypeVar, cast

from pynamodb.attributes import Attribute, UnicodeAttribute
from pynamodb.connection.table import TableConnection
from pynamodb.constants import ALL_NEW, RETURN_VALUES
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import send
from pynamodb_tracker.model.answers import answer_attribute, payload_attribute
from pynamodb_tracker.model.changes import Changes
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.status import Codes
from pynamodb_tracker.transitions.company import OptionalCompanion
from pynamodb_tracker.transitions.ending import Ending
from pynamodb_tracker.transitions.prepared import PreparedWrite, fill

T = TypeVar("T", bound=TaskRow)
R = TypeVar("R", bound=Callable[..., PreparedWrite])

_MOST_SHAPES = 128
"""How many rendered writes a step keeps; blocks change few different sets of attributes."""

WhenIgnored = Callable[[T], OptionalCompanion]
"""Returns what a task, as it will be, takes with it when it is ignored."""


def rendered_once(render: R) -> R:
    """Keep the write that a method renders, for its next call with arguments of the same shape.

    Values are filled in for each request. So of changes, the write depends on the attributes and the type of each; of
    an ending, on all but its values.
    """

    @wraps(render)
    def kept(self: StepWrites[Any], *args: object, **options: object) -> PreparedWrite:
        shape: list[object] = [render.__name__]
        for argument in (*args, *chain.from_iterable(options.items())):
            if isinstance(argument, Ending):
                shape.append((argument.code, argument.expires, *argument.parts))
            elif isinstance(argument, dict):
                shape.append(tuple([(name, value and next(iter(value))) for name, (_, value) in argument.items()]))
            else:
                shape.append(argument)
        key = tuple(shape)
        write = self._shapes.get(key)
        if write is None:
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
            write = self._shapes[key] = render(self, *args, **options)
        return write

    return cast("R", kept)


class StepWrites(Generic[T]):
    """Keeps the rendered writes of one step of one use case, fills them with values, and sends them."""

    def __init__(
        self, model: type[T], codes: Codes, max_attempts: int, when_ignored: WhenIgnored[T] | None = None
    ) -> None:
        self.model = model
        self.codes = codes
        self.max_attempts = max_attempts
        self.when_ignored = when_ignored
        """What a task takes with it when it is ignored, by the declaration of the step; None for nothing."""
        self.has_expiry = model.tracker.use_case.has_expiry
        self.answer = UnicodeAttribute(attr_name=answer_attribute(codes.pending), null=True)
        """The answer of the step's last success."""
        self.payload = UnicodeAttribute(attr_name=payload_attribute(codes.pending))
        """The fingerprint of the payload that the step was first started with."""
        self._shapes: dict[tuple[object, ...], PreparedWrite] = {}

    def send(
        self, write: PreparedWrite, task_id: str, *, until: datetime | None = None, **values: Any
    ) -> dict[str, Any]:
        """Send one of these writes, and retry it until then; raise Refused, or PynamoDB's UpdateError."""
        tracker = self.model.tracker
        request = write.request(tracker.key(task_id), values)
        return send(tracker.table.connection(), "UpdateItem", request, until=until)

    def as_action(self, write: PreparedWrite, task_id: str, **values: Any) -> dict[str, Any]:
        """Return one of these writes as an action of a transaction, which returns no row."""
        request = write.request(self.model.tracker.key(task_id), values)
        request.pop(RETURN_VALUES, None)
        return {"Update": {"TableName": self.table.table_name, **request}}

    def moved(self, code: int, task_id: str, now: datetime, due: datetime | None = None) -> dict[str, Any]:
        """Return the values of every status change: its index keys and its times, from one reading of the clock."""
        stamped = clock.stamp(now)
        values = {
            "status_key": self.model.tracker.use_case.status_key(code, task_id),
            "now": stamped,
            "due": stamped if due is None or due <= now else clock.stamp(due),
        }
        if self.has_expiry and (expiry := self.model.tracker.expiry_of(code, now)):
            values["expiry"] = expiry
        return values

    @property
    def table(self) -> TableConnection:
        """The connection of the table, by which PynamoDB renders expressions."""
        return self.model.tracker.connection()

    def _moves(self, code: int, *, expires: bool = True) -> list[Action]:
        is_indexed = self.model.tracker.is_indexed(code)
        actions: list[Action] = [
            TaskRow.status.set(code),
            fill(TaskRow.status_key, "status_key") if is_indexed else TaskRow.status_key.remove(),
            fill(TaskRow.due_time, "due"),
            fill(TaskRow.update_time, "now"),
        ]
        if expires and self.model.tracker.kept_for(code) is not None:
            actions.append(fill(TaskRow.expire_time, "expiry"))
        return actions

    def _write(self, condition: Condition, *actions: Action) -> PreparedWrite:
        return PreparedWrite(self.table, condition=condition, actions=actions, return_values=ALL_NEW)

    def payloads(self) -> list[Attribute[str]]:
        """Return the fingerprints of all steps, which a new round forgets: it may be started with another payload."""
        return [UnicodeAttribute(attr_name=payload_attribute(each.pending)) for each in self.model.tracker.steps]


def user_actions(changes: Changes) -> list[Action]:
    """Return the actions that store what the block changed."""
    return [
        attribute.remove() if value is None else fill(attribute, f"own {name}", next(iter(value)))
        for name, (attribute, value) in changes.items()
    ]


def user_values(changes: Changes) -> dict[str, Any]:
    """Return the values of the slots of the block's changes."""
    return {f"own {name}": next(iter(value.values())) for name, (_, value) in changes.items() if value is not None}
