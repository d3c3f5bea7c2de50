"""Parts of a run. Their results are stored at once, so that later attempts do not repeat them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pynamodb.exceptions import PynamoDBConnectionError

from pynamodb_tracker.dynamodb.error_codes import is_invalid
from pynamodb_tracker.exceptions import GiveUp
from pynamodb_tracker.model import strict_json
from pynamodb_tracker.model.changes import check_row_size, mark_saved
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.writes.lock import Journal
from pynamodb_tracker.writes.participants import Participant
from pynamodb_tracker.writes.refusals import send_save
from pynamodb_tracker.writes.transition import StepStatements, Transition

_MOST_BYTES, _MOST_IN_ALL = 1024, 8192
"""Bytes as JSON: one result, and all results with their names."""

_ROUND = "round"


class DoneParts(NamedTuple):
    """Results of a round's finished parts, as JSON."""

    round: str
    results: Mapping[tuple[str, str], str]
    """By step number, as text, and part name."""

    @classmethod
    def read(cls, stored: Mapping[str, str] | None, of_round: str) -> DoneParts:
        """Return the parts of this round in a stored map."""
        if stored is None or stored.get(_ROUND) != of_round:
            return cls(of_round, {})
        keys = ((key, *key.partition("/")) for key in stored if key != _ROUND)
        return cls(of_round, {(number, part): stored[key] for key, number, _, part in keys})

    @property
    def stored(self) -> dict[str, str]:
        return {_ROUND: self.round} | {f"{number}/{part}": text for (number, part), text in self.results.items()}

    @property
    def item(self) -> dict[str, Any]:
        attribute: Any = TaskRow.checkpoints
        return {attribute.attr_type: attribute.serialize(self.stored)}


class Parts(Participant):
    """A task's parts in its present round."""

    writes = False

    def __init__(self, journal: Journal[Any]) -> None:
        claim = journal.claim
        self._journal = journal
        self._step = str(claim.statements.codes.pending)
        self._done = DoneParts.read(claim.task.checkpoints, claim.round)
        self._running = set[str]()
        self._unsaved = False
        """Whether the end has to store the results."""
        self.is_stuck = False
        """Whether another attempt would repeat a finished part."""

    def begin(self, name: str) -> str | None:
        """Return a part's stored result, or begin it. Raise a RuntimeError if it already runs."""
        if (found := self._done.results.get((self._step, name))) is None:
            if name in self._running:
                raise RuntimeError(f"part {name!r} of {self._journal.claim} already runs in another thread or task")
            self._running.add(name)
        return found

    def end(self, name: str) -> None:
        """End a part, with or without a result."""
        self._running.discard(name)

    def store(self, name: str, result: object) -> str:
        """Store a part's result and return it as JSON. Raise GiveUp if it cannot be stored."""
        claim, before = self._journal.claim, (self._done, self._unsaved)
        try:
            text = result_text(result)
            done = DoneParts(self._done.round, {**self._done.results, (self._step, name): text})
            _check_size(text, done.stored)
            check_row_size(claim.task, {"checkpoints": done.item})
        except (TypeError, ValueError, RecursionError) as error:
            raise self._give_up(name, error) from error
        self._done, self._unsaved = done, True
        try:
            self._send()
        except PynamoDBConnectionError as error:
            if is_invalid(error):
                self._done, self._unsaved = before  # an earlier part may still wait for the end of the run
                raise self._give_up(name, error) from error
        return text

    def _give_up(self, name: str, error: Exception) -> GiveUp:
        self.is_stuck = True
        return GiveUp(
            f"part {name!r} of {self._journal.claim} is done, but its result cannot be stored: {error}. Another "
            "attempt would repeat the part, so a person has to decide"
        )

    def _send(self) -> None:
        journal, claim = self._journal, self._journal.claim
        journal.saves += 1
        save = build_save_of_parts(claim.statements, claim.token, journal.saves, self._done.stored)
        send_save(journal, save, "store a part of")
        self._unsaved = False
        claim.task.attribute_values["checkpoints"] = self._done.stored
        mark_saved(claim.task, {}, {"checkpoints": (TaskRow.checkpoints, self._done.item)})

    @classmethod
    def for_success(cls, run: Journal[Any], row: TaskRow) -> Parts:  # noqa: ARG003 - only the run writes them
        return parts_of(run)

    def change(self, success: Transition) -> None:
        """Remove the step's results, or all results if another round begins."""
        left = {(number, part): text for (number, part), text in self._done.results.items() if number != self._step}
        if not left or "round" in success.values:
            success.add(checkpoints=None)
        elif left != self._done.results:
            success.add(checkpoints=DoneParts(self._done.round, left).stored)

    @classmethod
    def change_other_end(cls, run: Journal[Any], end: Transition) -> None:
        """Store unsaved results, unless another round begins."""
        parts_of(run).add_unsaved(end)

    def add_unsaved(self, end: Transition) -> None:
        """Store unsaved results with a failure or release."""
        if self._unsaved and "round" not in end.values:
            end.add(checkpoints=self._done.stored)


def result_text(result: object) -> str:
    """Return a part's result as JSON. Raises ValueError or TypeError."""
    text = strict_json.dumps(result, ensure_ascii=False, separators=(",", ":"))
    if strict_json.is_too_deep(result, text):
        raise strict_json.too_deep("it")
    return text


def build_save_of_parts(
    statements: StepStatements[Any], token: str, number: int, parts: Mapping[str, str]
) -> Transition:
    save = statements.save(token, number)
    save.name = "save parts"
    save.add(checkpoints=parts)
    return save


def parts_of(journal: Journal[Any]) -> Parts:
    if "checkpoints" not in journal.additions:
        journal.additions["checkpoints"] = Parts(journal)
    parts: Parts = journal.additions["checkpoints"]
    return parts


def _check_size(text: str, parts: Mapping[str, str]) -> None:
    size, total = len(text.encode()), sum(len((key + value).encode()) for key, value in parts.items())
    if size > _MOST_BYTES or total > _MOST_IN_ALL:
        raise ValueError(
            f"it has {size:,} bytes as JSON of at most {_MOST_BYTES:,}, and all results with their names {total:,} of "
            f"at most {_MOST_IN_ALL:,}. Return an id, and keep the rest in another attribute"
        )
