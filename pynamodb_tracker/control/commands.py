"""The commands of people on a control item: pause, resume, and what the use case's end deletes.

Each write has a token, so that none is undone by a late copy of an earlier one; the later `until` wins:

    pause    IF  no pause yet, or its token < :token and (it has no `until`, or that is earlier)
    keep     IF  token = :seen          the pause that is there lasts longer: only the token is raised
    resume   IF  no pause yet, or its token < :token
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pynamodb.constants import MAP, STRING

from pynamodb_tracker import clock
from pynamodb_tracker.arguments import shown
from pynamodb_tracker.control.item import PAUSED, Pause, check, damaged, key, pause_in
from pynamodb_tracker.dynamodb.connection import Refused, send
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.model.overflow import GROUP_OF
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.model.serialization import TOKEN
from pynamodb_tracker.model.worker_name import this_worker
from pynamodb_tracker.transitions.lock import new_token

_TRIES = 6
_LONGEST_REASON = 1_000

_EARLIER = "attribute_not_exists(#pause) OR #pause.#token < :token"
_KEEP = "SET #pause.#token = :token"
_SHORTER = (
    "attribute_not_exists(#pause) OR "
    "(#pause.#token < :token AND (attribute_not_exists(#pause.#until) OR #pause.#until < :until))"
)


def pause(model: type[TaskRow], number: int, until: datetime | None, reason: str, by: str | None) -> Pause:
    """Pause a step, and return its pause: the one that was there, if that lasts longer."""
    if len(reason) > _LONGEST_REASON:
        raise ValueError(f"the reason of a pause has at most {_LONGEST_REASON:,} characters, not {len(reason):,}")
    stored = {"until": clock.stamp(until or clock.NEVER), "reason": reason, **_signed(by)}
    command = _Command(model, number, stored)
    return pause_in(model, number, command.carry_out(_SHORTER))


def resume(model: type[TaskRow], number: int, by: str | None) -> None:
    """Resume a step, whether it is paused or not: a pause that is still on its way has no effect any more."""
    _Command(model, number, _signed(by)).carry_out(_EARLIER)


def _signed(by: str | None) -> dict[str, str]:
    return {"by": by or this_worker(), "time": clock.stamp(clock.now())}


class _Command:
    """One call of `pause` or `resume`: the requests that it takes until one of them is known to be applied."""

    def __init__(self, model: type[TaskRow], number: int, stored: dict[str, str]) -> None:
        check(model)
        self._model = model
        self._attribute = f"{PAUSED}{number}"
        self._stored = stored

    def carry_out(self, condition: str) -> dict[str, Any]:
        """Return what the step's attribute holds then."""
        token = new_token()
        for _ in range(_TRIES):
            wanted: dict[str, Any] = {name: {STRING: value} for name, value in self._stored.items()}
            wanted |= {"token": {STRING: token}}
            found = self._send("SET #pause = :pause, #mark = :mark", condition, token, pause={MAP: wanted})
            if found is None:
                return wanted
            seen = found.get("token", {}).get(STRING, "")
            if TOKEN.fullmatch(seen) is None:
                raise damaged(self._model, f"{self._attribute} has no token, but {shown(seen)}; remove that attribute")
            if seen > token:
                token = new_token(above=seen)
            elif self._send(_KEEP, "#pause.#token = :seen", token, seen={STRING: seen}) is None:
                return found  # the pause that is there lasts longer, or it is this one, and its answer was lost
        raise TrackerError(f"the pause of a step of {self._model.__name__} changed {_TRIES} times meanwhile; try again")

    def _send(self, update: str, condition: str, token: str, **values: dict[str, Any]) -> dict[str, Any] | None:
        """Send an update; if it is refused, return what the step's attribute holds."""
        names = {"#pause": self._attribute, "#token": "token", "#until": "until", "#mark": GROUP_OF}
        known = {"until": {STRING: self._stored.get("until", "")}, "token": {STRING: token}, **values}
        known["mark"] = {STRING: self._model.tracker.use_case.name}
        request = {
            "Key": key(self._model),
            "UpdateExpression": update,
            "ConditionExpression": condition,
            "ExpressionAttributeNames": {name: each for name, each in names.items() if name in update + condition},
            "ExpressionAttributeValues": {f":{n}": v for n, v in known.items() if f":{n}" in update + condition},
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        try:
            send(self._model.tracker.connection(), "UpdateItem", request)
        except Refused as refused:
            found: dict[str, Any] = (refused.item or {}).get(self._attribute, {}).get(MAP, {})
            return found
        return None


def forget(model: type[TaskRow]) -> None:
    """Delete the control item."""
    send(model.tracker.connection(), "DeleteItem", {"Key": key(model)})
