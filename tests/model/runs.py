"""The protocol of a run: claims, ends and takeovers of one task by two workers, with faults of the network and deaths.

A worker follows the code: a refused or unanswered write is followed by a read, and the functions of the library decide
by the row what it means.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from pynamodb_tracker import Step, Task, UseCase
from pynamodb_tracker.model.row import load
from pynamodb_tracker.status import Codes
from pynamodb_tracker.transitions import Claim, StepStatements
from pynamodb_tracker.transitions.finishes import finished
from pynamodb_tracker.transitions.refusals import has_landed, is_free, is_held_by, is_startable
from pynamodb_tracker.transitions.transition import Transition
from tests.model.writes import Item, Write, plain, typed, written

__all__ = ["Limits", "Runs", "State"]

BASE = datetime(2026, 1, 1, tzinfo=UTC)
TICK = timedelta(minutes=10)
LOCK = 2 * TICK - timedelta(minutes=5)
"""A lock expires between two ticks, and a retry is due at once: no comparison depends on a fraction of a tick."""
MOST_ATTEMPTS = 2


class Table(Task):
    """The table of the model; nothing is sent to it."""

    class Meta:
        """What PynamoDB needs."""

        table_name = "tasks"
        region = "us-east-1"


class Order(Table):
    """A use case with two steps."""

    use_case_id = UseCase("order")
    pay = Step(100, max_attempts=MOST_ATTEMPTS)
    ship = Step(200, max_attempts=MOST_ATTEMPTS)


class Limits(NamedTuple):
    """How far is searched."""

    claims: int = 2
    """How many claims each worker sends."""
    ticks: int = 3
    lost: int = 1
    """How many requests or answers are lost."""
    late: int = 1
    """How many requests arrive a second time, later."""
    deaths: int = 1
    behind: int = 0
    """By how many ticks the clock that makes the tokens of the second worker is behind."""


class Worker(NamedTuple):
    """A worker: `idle`, or in the middle of a claim, a block, an end, or of taking a claim back."""

    doing: str = "idle"
    tokens: tuple[str, ...] = ()
    """Of the claims of this call."""
    sent: Write | None = None
    """What it has sent, and waits for."""
    held: Item = ()
    """The row as it was claimed."""
    left: int = 0
    """How many claims it may still send."""
    end: Write | None = None
    """How it has tried to end its run."""


class State(NamedTuple):
    """All there is."""

    row: Item
    workers: tuple[Worker, ...]
    late: tuple[Write, ...]
    """What may still arrive once more."""
    now: int
    made: int
    """How many tokens were made."""
    faults: tuple[int, int, int]
    """How many losses, late copies and deaths are left."""
    succeeded: tuple[int, ...]
    """The fences of the successes that were applied."""
    ended: tuple[str, ...]
    """Tokens of claims that must not lock the task any more: their call has ended, and has said so."""
    lost: tuple[int, ...]
    """Fences of runs that were told that nothing of them is recorded."""
    acknowledged: tuple[int, ...]
    """Fences of runs whose success was acknowledged."""


class Runs:
    """What may happen, for guards that are in place, or left out."""

    def __init__(
        self, limits: Limits, without: dict[str, Collection[str]] | None = None, *, by_token: bool = False
    ) -> None:
        """Leave out guards, by the name of the write; `by_token` leaves out `unfinished` where an end was refused."""
        self.limits = limits
        self._without = without or {}
        self._by_token = by_token
        codes = Order.pay._definition.codes, Order.ship._definition.codes
        self._steps = [StepStatements(Order, each, MOST_ATTEMPTS) for each in codes]

    def start(self) -> State:
        """Return a task that is pending at its first step, and two workers."""
        item = {
            "task_id": {"S": "o"},
            "use_case_id": {"S": "order"},
            "status": {"N": str(self._steps[0].codes.pending)},
            "due_time": {"S": "2026-01-01T00:00:00.000000+0000"},
            "create_time": {"S": "2026-01-01T00:00:00.000000+0000"},
            "update_time": {"S": "2026-01-01T00:00:00.000000+0000"},
            "creation": {"S": "0" * 24},
            "attempt": {"N": "0"},
            "fence": {"N": "0"},
            "unfinished": {"L": []},
            "v": {"N": "1"},
        }
        limits = self.limits
        workers = tuple(Worker(left=limits.claims) for _ in range(2))
        return State(plain(item), workers, (), 0, 0, (limits.lost, limits.late, limits.deaths), (), (), (), ())

    def following(self, state: State) -> Iterator[tuple[str, State, str | None]]:
        """Yield what may happen."""
        if state.now < self.limits.ticks:
            yield "time passes", state._replace(now=state.now + 1), self._broken(state._replace(now=state.now + 1))
        for at, write in enumerate(state.late):
            after = self._applied(state._replace(late=state.late[:at] + state.late[at + 1 :]), write)
            if after is not None:
                yield f"a late copy of {write.name} is applied", after, self._broken(after)
        for number in range(2):
            for name, after in self._of_worker(state, number):
                yield f"worker {number}: {name}", after, self._broken(after)

    def _of_worker(self, state: State, number: int) -> Iterator[tuple[str, State]]:
        worker = state.workers[number]
        if worker.sent is not None:
            yield from self._sent(state, number, worker, worker.sent)
            return
        match worker.doing:
            case "idle":
                yield from self._claims(state, number, worker._replace(tokens=()))
            case "refused":
                yield from self._claim_again(state, number, worker)
            case "running":
                yield from self._ends(state, number, worker)
            case "unheard":
                yield from self._gives_back(state, number, worker)
            case "ending":
                yield from self._looks(state, number, worker)
            case "unanswered":
                yield from self._tries_again(state, number, worker)
        losses, late, deaths = state.faults
        if deaths and worker.doing == "running":
            gone = state._replace(faults=(losses, late, deaths - 1))
            yield "dies", _with(gone, number, Worker(doing="dead"))

    def _claims(self, state: State, number: int, worker: Worker) -> Iterator[tuple[str, State]]:
        """Send a claim of the step at which the task is."""
        if not worker.left:
            return
        row = _row(state.row)
        step = self._step_of(row.status)
        if step is None:
            return
        token = self._token(state, number, row.lock if worker.tokens else None)
        now = _at(state.now)
        claim = step.moved(step.claim(token, "w", now, LOCK, code=None, payload=None), "o", now)
        sent = worker._replace(
            doing="claiming", tokens=(*worker.tokens, token), sent=self._write(claim), left=worker.left - 1
        )
        yield "sends a claim", _with(state._replace(made=state.made + 1), number, sent)

    def _sent(self, state: State, number: int, worker: Worker, write: Write) -> Iterator[tuple[str, State]]:
        """Let a request arrive or not, and its answer as well; a copy of it may arrive later."""
        losses, late, deaths = state.faults
        applied = self._applied(state, write)
        for copies in range(2 if late else 1):
            before = state if applied is None else applied
            rest = before._replace(
                faults=(losses, late - copies, deaths),
                late=tuple(sorted((*before.late, *[write] * copies), key=repr_of)),
            )
            name = (
                f"{write.name} is {'refused' if applied is None else 'applied'}{', and a copy is on its way' * copies}"
            )
            yield name, _with(rest, number, self._answered(worker, write, rest, refused=applied is None))
        if losses:
            unheard = worker._replace(sent=None, doing="unheard" if worker.doing == "claiming" else _after_loss(worker))
            if applied is not None:
                rest = applied._replace(faults=(losses - 1, late, deaths))
                yield f"{write.name} is applied, and its answer lost", _with(rest, number, unheard)
            rest = state._replace(
                faults=(losses - 1, late, deaths), late=tuple(sorted((*state.late, write), key=repr_of))
            )
            yield f"{write.name} is on its way, and nobody waits for it", _with(rest, number, unheard)

    def _answered(self, worker: Worker, write: Write, state: State, *, refused: bool) -> Worker:
        match worker.doing:
            case "claiming" if refused:
                return worker._replace(sent=None, doing="refused")
            case "claiming":
                return worker._replace(sent=None, doing="running", held=state.row)
            case "undoing":
                return worker._replace(sent=None, doing="unheard" if refused else "undone")
            case _:
                return worker._replace(sent=None, doing="ending" if refused else f"told {write.name}")

    def _claim_again(self, state: State, number: int, worker: Worker) -> Iterator[tuple[str, State]]:
        """Read the row after a refusal: the own success, another try with a later token, or the reason."""
        row = _row(state.row)
        step = self._step_of(row.status)
        if step is not None and is_held_by(row, step.codes, worker.tokens):
            yield "finds that it holds the task", _with(state, number, worker._replace(doing="running", held=state.row))
        elif (
            step is not None
            and is_startable(row, step.codes, _at(state.now))
            and row.attempt < MOST_ATTEMPTS
            and worker.left
        ):
            yield from self._claims(state, number, worker)
        else:
            yield "learns why", _with(state, number, Worker(left=worker.left))

    def _ends(self, state: State, number: int, worker: Worker) -> Iterator[tuple[str, State]]:
        claim, now = _claim(self._step_of(_row(worker.held).status), worker.held), _at(state.now)
        statements, codes = claim.statements, claim.statements.codes
        ends = {
            "succeeds": finished(
                claim,
                statements.succeed(claim.token, statements.codes.succeeded),
                now,
                0,
                last_error=None,
                release_count=None,
            ),
            "fails": finished(claim, statements.finish("fail", claim.token, codes.failed), now, claim.attempt),
            "releases": finished(
                claim, statements.finish("release", claim.token, codes.pending), now, claim.attempt - 1
            ),
        }
        for name, end in ends.items():
            write = self._write(end)
            yield name, _with(state, number, worker._replace(doing="ends", sent=write, end=write))

    def _tries_again(self, state: State, number: int, worker: Worker) -> Iterator[tuple[str, State]]:
        """Send an end without an answer again, until the lock has expired."""
        if _row(worker.held).lock_expire_time > _at(state.now):
            yield "sends its end again", _with(state, number, worker._replace(doing="ends", sent=worker.end))
        else:
            yield "does not know how it has ended", _with(state, number, Worker(left=worker.left))

    def _looks(self, state: State, number: int, worker: Worker) -> Iterator[tuple[str, State]]:
        """Read the row after an end that was refused: it has landed, or the lock is lost."""
        claim, row = _claim(self._step_of(_row(worker.held).status), worker.held), _row(state.row)
        landed = row.lock == claim.token and row.status != claim.statements.codes.in_progress
        if not self._by_token:
            landed = has_landed(claim, row)
        if landed:
            yield "finds its end on record", _with(state, number, worker._replace(doing="told found"))
        else:
            after = state._replace(lost=(*state.lost, claim.fence))
            yield "finds that its lock is lost", _with(after, number, Worker(left=worker.left))

    def _gives_back(self, state: State, number: int, worker: Worker) -> Iterator[tuple[str, State]]:
        """Make sure that an unanswered claim holds nothing, as far as that is possible."""
        row = _row(state.row)
        step = self._step_of(row.status)
        if step is not None and is_held_by(row, step.codes, worker.tokens):
            claim = _claim(step, state.row)
            release = finished(
                claim, step.finish("release", claim.token, step.codes.pending), _at(state.now), claim.attempt - 1
            )
            yield "gives back", _with(state, number, worker._replace(doing="undoing", sent=self._write(release)))
        elif row.lock is not None and row.lock >= max(worker.tokens):
            yield "is shut out", _with(_over(state, worker), number, Worker(left=worker.left))
        elif is_free(row) and step is not None:
            token = self._token(state, number, max(worker.tokens))
            shut_out = self._write(step.shut_out(row, token))
            after = state._replace(made=state.made + 1)
            yield "shuts itself out", _with(after, number, worker._replace(doing="undoing", sent=shut_out))
        else:
            yield "says that it may be locked", _with(state, number, Worker(left=worker.left))

    def _applied(self, state: State, write: Write) -> State | None:
        """Return the state after a write; None if it is refused."""
        row = written(write, state.row)
        if row is None:
            return None
        succeeded = (*state.succeeded, dict(state.row)["fence"]) if write.name == "succeed" else state.succeeded
        return state._replace(row=row, succeeded=succeeded)

    def _broken(self, state: State) -> str | None:  # noqa: PLR0911 - one for each promise
        """Return which promise a state breaks."""
        row, now = _row(state.row), _at(state.now)
        running = [each for each in state.workers if each.doing == "running" and _row(each.held).lock_expire_time > now]
        if len({dict(each.held)["status"] for each in running}) < len(running):
            return "two blocks run under a valid lock"
        if len(state.succeeded) > len({*state.succeeded}) or len(state.succeeded) > 2:
            return "a success is recorded twice"
        if {*state.succeeded} & {*state.lost}:
            return "a run was told that it is lost, and its success is recorded"
        if {*state.acknowledged} - {*state.succeeded}:
            return "a success was acknowledged, and is not recorded"
        if row.attempt > MOST_ATTEMPTS:
            return "more attempts than allowed"
        held = row.status in {step.codes.in_progress for step in self._steps}
        if held and row.lock in state.ended:
            return "a claim of a call that has ended locks the task"
        return None

    def _write(self, transition: Transition) -> Write:
        return Write(transition, self._without.get(transition.name, ()))

    def _token(self, state: State, number: int, above: str | None) -> str:
        """Return a token of the worker's clock, later than that of the row if that is known."""
        own = 16 * (state.now + 4 - number * self.limits.behind) + state.made % 16
        return f"{max(own, int(above or '0', 16) + 1):024x}"

    def _step_of(self, status: int) -> StepStatements[Any] | None:
        return next((step for step in self._steps if status in _codes_of(step.codes)), None)


def repr_of(write: Write) -> str:
    """Return what orders the writes that are on their way."""
    return f"{write.name} {write.slots}"


def _codes_of(codes: Codes) -> set[int]:
    return {codes.pending, codes.in_progress, codes.failed, codes.ignored}


def _after_loss(worker: Worker) -> str:
    return "unheard" if worker.doing == "undoing" else "unanswered"


def _over(state: State, worker: Worker) -> State:
    return state._replace(ended=(*state.ended, *worker.tokens))


def _with(state: State, number: int, worker: Worker) -> State:
    """Return the state with another worker; one that was told how its run has ended begins anew."""
    if worker.doing == "undone":
        state, worker = _over(state, worker), Worker(left=worker.left)
    if worker.doing.startswith("told"):
        if worker.doing == "told succeed":
            state = state._replace(acknowledged=(*state.acknowledged, dict(worker.held)["fence"]))
        state, worker = _over(state, worker), Worker(left=worker.left)
    workers = list(state.workers)
    workers[number] = worker
    return state._replace(workers=tuple(workers))


def _at(tick: int) -> datetime:
    return BASE + tick * TICK


@cache
def _row(item: Item) -> Any:
    return load(Order, typed(item))


@cache
def _claim(step: StepStatements[Any] | None, item: Item) -> Claim[Any]:
    row = _row(item)
    return Claim(step, row, row.lock)
