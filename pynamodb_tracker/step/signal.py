"""Signals that tasks can wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from pynamodb_tracker.aio.lazy import awaited
from pynamodb_tracker.model.arguments import check_flags, check_key, check_task_id, shown
from pynamodb_tracker.model.data import to_json
from pynamodb_tracker.model.row import T, TaskRow
from pynamodb_tracker.model.signals import ReceivedSignal, SignalName, check_label

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pynamodb_tracker.features.signals import Sent


class BoundSignal(SignalName[T]):
    """A signal that tasks of a use case can wait for, such as `Order.paid`."""

    def send(
        self,
        task_id: str,
        value: object = None,
        *,
        by: str | None = None,
        key: str | None = None,
        round: str | None = None,  # noqa: A002 - as the row names it
    ) -> Sent[T]:
        """Store a signal, and make the task due if it waits for nothing else.

        The first signal in a round counts. Sending it again changes nothing. This takes 3 write units if the task
        becomes due, otherwise 1, and 1 more unless the task waited for this signal alone.

        Args:
            task_id: The task id.
            value: At most 1 KB of JSON.
            by: Who sends it, at most 256 bytes.
            key: At most 256 bytes, such as a payment provider's event id. Two signals with keys are the same if their
                keys are equal, others if their values are.
            round: The signal's round, from `ctx.round`. A task that has started over needs it.

        Raises:
            SignalAlreadyReceivedError: The task has another signal, which the error contains.
            TaskNotFoundError: The task does not exist, or the round is over.
            TaskAlreadySucceededError: The task has ended.
            TaskNotReadyError: Another run of the task is requested.
            TypeError: The task has started over, and `round` is missing.

        Examples:
            >>> Order.paid.send("o-1", {"amount": "42.50"}, by="stripe", key="event-7")
        """
        from pynamodb_tracker.features.signals import send  # noqa: PLC0415 - few cold starts need it

        task_id, by, key = check_task_id(task_id), check_label("by", by), check_label("key", key)
        return send(self.model, task_id, self.name, value, by=by, key=key, of_round=check_label("round", round))

    asend = awaited(send)


class Signal:
    """A signal that tasks can wait for: a payment, an approval, a callback.

    You send `Order.paid`, a BoundSignal. `task.paid` is the received signal with its `value`, or None.

    Args:
        name: Its stored name, by default the attribute's.
        choices: The only values that people can send, on the page and in the terminal, by the texts of their buttons.
        by_people: Whether people can send it on the page.

    Examples:
        >>> paid = Signal(by_people=False)
        >>> approved = Signal(choices={"Approve": True, "Reject": False})
    """

    def __init__(
        self, name: str | None = None, *, choices: Mapping[str, object] | None = None, by_people: bool = True
    ) -> None:
        check_flags(by_people=by_people)
        self.name = name
        self.choices = dict(choices or {})
        for label, value in self.choices.items():
            to_json(value, check_key("choice", label))
        self.by_people = by_people

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = self.name or name

    @property
    def stored_name(self) -> str:
        return self.name or ""

    @overload
    def __get__(self, instance: None, owner: type[T]) -> BoundSignal[T]: ...

    @overload
    def __get__(self, instance: TaskRow, owner: type[T]) -> ReceivedSignal | None: ...

    def __get__(self, instance: TaskRow | None, owner: type[T]) -> BoundSignal[T] | ReceivedSignal | None:
        if instance is None:
            return BoundSignal(owner, self.stored_name)
        return (instance.signals or {}).get(self.stored_name)


def signals_in(model: type) -> Sequence[Signal]:
    found = {name: value for base in reversed(model.__mro__) for name, value in vars(base).items()}
    return [value for value in found.values() if isinstance(value, Signal)]


def signal_named(model: type[T], name: str) -> BoundSignal[T]:
    known = sorted(each.stored_name for each in signals_in(model))
    if name not in known:
        raise ValueError(f"{model.__name__} has no signal {shown(name)}. It has {', '.join(known) or 'none'}")
    return BoundSignal(model, name)
