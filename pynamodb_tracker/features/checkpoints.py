"""Parts of a run. Their results are stored at once, so that later attempts do not repeat them."""

from collections.abc import Mapping
from typing import Any, Self

from pynamodb.constants import MAP
from pynamodb.exceptions import PynamoDBConnectionError

from pynamodb_tracker.dynamodb.error_codes import is_invalid
from pynamodb_tracker.exceptions import GiveUp
from pynamodb_tracker.model import strict_json
from pynamodb_tracker.model.changes import check_row_size, mark_saved
from pynamodb_tracker.model.codecs import encode_parts
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.writes.lock import Journal
from pynamodb_tracker.writes.participants import Participant
from pynamodb_tracker.writes.refusals import send_save
from pynamodb_tracker.writes.transition import StepStatements, Transition

_MOST_BYTES, _MOST_IN_ALL = 1024, 8192
"""Bytes as JSON: one result, and all results with their names."""

ROUND = "round"


def parts_in(row: TaskRow, of_round: str) -> Mapping[str, str]:
    """Return this round, and the results of its finished parts as JSON, by keys such as `200/part`."""
    parts: Mapping[str, str] = row.checkpoints or {}
    return parts if parts.get(ROUND) == of_round else {ROUND: of_round}


class Parts(Participant):
    """A task's parts in its present round."""

    writes = False

    def __init__(self, journal: Journal[Any]) -> None:
        claim = journal.claim
        self._journal = journal
        self._step = f"{claim.statements.codes.pending}/"
        self.done = parts_in(claim.task, claim.round)
        self._running = set[str]()
        self.is_unsaved = False
        """Whether the end has to store the results."""
        self.is_stuck = False
        """Whether another attempt would repeat a finished part."""

    def begin(self, name: str) -> str | None:
        """Return a part's stored result, or begin it. Raise a RuntimeError if it already runs."""
        if (found := self.done.get(self._step + name)) is None:
            if name in self._running:
                raise RuntimeError(f"part {name!r} of {self._journal.claim} already runs in another thread or task")
            self._running.add(name)
        return found

    def end(self, name: str) -> None:
        """End a part, with or without a result."""
        self._running.discard(name)

    def store(self, name: str, result: object) -> str:
        """Store a part's result and return it as JSON. Raise GiveUp if it cannot be stored."""
        claim, before = self._journal.claim, (self.done, self.is_unsaved)
        try:
            text = result_text(result)
            done = {**self.done, self._step + name: text}
            _check_size(text, done)
            check_row_size(claim.task, {"checkpoints": {MAP: encode_parts(done)}})
        except (TypeError, ValueError, RecursionError) as error:
            raise self._give_up(name, error) from error
        self.done, self.is_unsaved = done, True
        try:
            self._send()
        except PynamoDBConnectionError as error:
            if is_invalid(error):
                self.done, self.is_unsaved = before  # an earlier part may still wait for the end of the run
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
        save = build_save_of_parts(claim.statements, claim.token, journal.saves, self.done)
        send_save(journal, save, "store a part of")
        self.is_unsaved = False
        claim.task.attribute_values["checkpoints"] = self.done
        mark_saved(claim.task, {}, {"checkpoints": (TaskRow.checkpoints, {MAP: encode_parts(self.done)})})

    @classmethod
    def of_run(cls, run: Journal[Any]) -> Self:
        parts: Self = run.additions.get("checkpoints") or cls(run)
        run.additions["checkpoints"] = parts
        return parts

    @classmethod
    def for_success(cls, run: Journal[Any], row: TaskRow) -> Self:  # noqa: ARG003 - only the run writes them
        return cls.of_run(run)

    def change(self, success: Transition) -> None:
        """Remove the step's results, or all results if another round begins."""
        left = {key: text for key, text in self.done.items() if not key.startswith(self._step)}
        if left.keys() == {ROUND} or "round" in success.values:
            success.add(checkpoints=None)
        elif left != self.done:
            success.add(checkpoints=left)

    @classmethod
    def change_other_end(cls, run: Journal[Any], end: Transition) -> None:
        """Store unsaved results, unless another round begins."""
        parts = cls.of_run(run)
        if parts.is_unsaved and "round" not in end.values:
            end.add(checkpoints=parts.done)


def result_text(result: object) -> str:
    """Return a part's result as JSON. Raises ValueError or TypeError."""
    text = strict_json.dumps(result, ensure_ascii=False, separators=(",", ":"))
    if strict_json.is_too_deep(result, text):
        raise strict_json.too_deep("it")
    return text


def build_save_of_parts(
    statements: StepStatements[Any], token: str, number: int, parts: Mapping[str, str]
) -> Transition:
    save = statements.save(token, number, name="save parts")
    save.add(checkpoints=parts)
    return save


def _check_size(text: str, parts: Mapping[str, str]) -> None:
    size, total = len(text.encode()), sum(len((key + value).encode()) for key, value in parts.items())
    if size > _MOST_BYTES or total > _MOST_IN_ALL:
        raise ValueError(
            f"it has {size:,} bytes as JSON of at most {_MOST_BYTES:,}, and all results with their names {total:,} of "
            f"at most {_MOST_IN_ALL:,}. Return an id, and keep the rest in another attribute"
        )
