"""A step as the rest of the package sees it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypedDict, Unpack

from pynamodb.constants import STRING

from pynamodb_tracker import clock, transitions
from pynamodb_tracker.exceptions import ConcurrencyLimitReachedError, StepPausedError, TaskError, TaskNotStartableError
from pynamodb_tracker.execution.retry_policy import RetryPolicy
from pynamodb_tracker.model import arguments
from pynamodb_tracker.model.row import T, TaskRow
from pynamodb_tracker.model.status import Codes, Status, end_of
from pynamodb_tracker.query.due import DueTasks
from pynamodb_tracker.query.state_scan import Window
from pynamodb_tracker.step.state import State, window
from pynamodb_tracker.writes import refusals
from pynamodb_tracker.writes.participants import NewlyDue

if TYPE_CHECKING:
    from pynamodb_tracker.control.item import Pause
    from pynamodb_tracker.control.limit import ConcurrencyLimit
    from pynamodb_tracker.control.slots import StepSlots
    from pynamodb_tracker.work.candidates import Candidates


class DeclaredStep(RetryPolicy, Protocol):
    name: str
    number: int
    max_attempts: int
    lock_for: timedelta
    when_ignored: Callable[[Any, Callable[..., None]], object] | None
    on_cancel: bool
    concurrency_limit: ConcurrencyLimit | None


class DeclaredState:
    """A state that a class body names before its use case exists."""

    __slots__ = ("status", "step")

    def __init__(self, step: DeclaredStep, status: Status) -> None:
        self.step = step
        self.status = status

    def __repr__(self) -> str:
        return f"{self.step.name}.{self.status}"


if TYPE_CHECKING:
    from pynamodb_tracker.work.outcomes import Report

    class StartOptions(TypedDict, total=False):
        lock_for: timedelta | None
        detailed_error: bool
        also_from: States
        heartbeat: bool
        must_match: object
        ignore_concurrency_limit: bool

    class RunOptions(StartOptions, total=False):
        store_result: bool

    class DueOptions(TypedDict, total=False):
        since: datetime | None
        until: datetime | None
        only: States
        error_contains: str | None

    class BatchOptions(DueOptions, total=False):
        threads: int
        limit: int | None
        rate: float | None
        progress: Callable[[Report], object] | None
        heartbeat: bool


States = Sequence[State[Any] | DeclaredState]


class StepDefinition(Generic[T]):
    """A bound step without the methods for users: `step._definition`."""

    __slots__ = ("also_from", "codes", "declared", "model", "statements", "states")

    def __init__(self, model: type[T], declared: DeclaredStep, codes: Codes, states: dict[int, State[T]]) -> None:
        self.model = model
        self.declared = declared
        self.codes = codes
        self.states = states  # of all steps of the class, by code
        self.also_from: frozenset[int] = frozenset()  # codes of more states to start from
        when_ignored = None
        if declared.when_ignored is not None:
            from pynamodb_tracker.features.children.follow_ups import FollowUpsOfIgnored  # noqa: PLC0415 - few steps need it

            when_ignored = partial(FollowUpsOfIgnored, declared.when_ignored, declared.name)
        self.statements = transitions.StepStatements(model, codes, declared.max_attempts, when_ignored)

    def prepare(self, *, with_payload: bool = False) -> None:
        """Build the table's client and the first run's claim, without sending anything."""
        self.model.tracker.table.connect()
        self.statements.prepare(with_payload=with_payload)

    def due(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        only: States = (),
        error_contains: str | None = None,
        goes_on: Callable[[], bool] | None = None,
    ) -> DueTasks[T]:
        """Return the due and abandoned tasks. Their ids end when `goes_on` returns False."""
        which = window(since, until), self.codes_to_do(only)
        like = arguments.check_text("error_contains", error_contains)
        return self._find_due(*which, error_contains=like, goes_on=goes_on)

    def due_codes_in(self, shard: int, *codes: int) -> DueTasks[T]:
        return self._find_due(Window(), frozenset(codes), shards=slice(shard, shard + 1))

    def _find_due(self, within: Window, only: frozenset[int], **which: Any) -> DueTasks[T]:
        most = self.declared.max_attempts
        return DueTasks(self.model, self.codes, clock.now(), within, only=only, max_attempts=most, **which)

    def is_startable(self, task_id: str) -> bool:
        """Read a task, and return whether it is worth starting now."""
        try:
            row = transitions.get(self.model, task_id)
        except TaskError:  # it is damaged, as its start will report
            return True
        return row is not None and refusals.is_startable(row, self.codes, clock.now(), on_time=True)

    @property
    def shards(self) -> int:
        """How many shards each state has, without the urgent one."""
        return self.model.tracker.use_case.read_shards

    def candidates(self, *, threads: int, limit: int | None = None, **which: Unpack[DueOptions]) -> Candidates:
        """Return the due ids in an order that keeps workers apart."""
        from pynamodb_tracker.work.candidates import Candidates  # noqa: PLC0415 - for cold starts, which run one task

        due = self.due(goes_on=lambda: found.goes_on(), **which)  # noqa: PLW0108 - it is set later
        options: dict[str, Any] = {"threads": threads, "limit": limit, "selects": any(which.values())}
        found = Candidates(due.ids_in, shards=self.shards, lane=self.model.tracker.lane, **options)
        return found

    def pause(self, *, lives_long: bool = True) -> Pause | None:
        """Return this step's pause, or None, with at most one request in 5 seconds.

        By default, only programs that live long look for it. Raises DefinitionError if the stored step numbers differ.
        """
        if not self.model.tracker.obeys_control(lives_long=lives_long):
            return None
        from pynamodb_tracker.control.watch import pause_of  # noqa: PLC0415 - handlers do without it

        return pause_of(self.model, self.codes.pending)

    def slots(self) -> StepSlots | None:
        if self.declared.concurrency_limit is None:
            return None
        from pynamodb_tracker.control.slots import StepSlots  # noqa: PLC0415 - few steps have a limit

        self.check_caller()
        return StepSlots(self.model, self.codes.step, self.declared.concurrency_limit)

    def check_caller(self) -> None:
        """Raise NestedConcurrencyLimitError if the step has a limit, and the block around this call has a slot."""
        if self.declared.concurrency_limit is None:
            return
        from pynamodb_tracker.control.slots import check_caller  # noqa: PLC0415 - as above

        check_caller(f"{self.model.__name__}.{self.codes.step}", self.declared.concurrency_limit)

    def create(
        self, task_id: str, attributes: Mapping[str, Any], trace: Mapping[str, str] | None, payload: str | None
    ) -> None:
        also = None if payload is None else {self.statements.payload.attr_name: {STRING: payload}}
        code = self.codes.pending
        note_created(transitions.create(self.model, task_id, code, None, attributes, trace=trace, also=also))

    def reopen(
        self,
        task_id: str,
        by: str | None,
        due_time: datetime | None,
        *,
        found: T | None = None,
        enters: bool = True,
        **options: bool,
    ) -> T:
        from pynamodb_tracker.transitions.reopening import reopen  # noqa: PLC0415 - few cold starts need it

        task_id, by = arguments.check_task_id(task_id), arguments.check_name("by", by)
        return reopen(self.statements, task_id, by, due_time, found=found, enters=enters, **options)

    def make_due(self, row: T) -> T | None:
        from pynamodb_tracker.features.merges import make_due  # noqa: PLC0415 - few cold starts need it

        return make_due(self.statements, row)

    def refusal(self, task_id: str, pause: Pause | None, payload: str | None) -> TaskNotStartableError:
        """Return the error that a claim of the task would raise, or else one about the pause or the full limit."""
        operation, row = f"start {self.codes.step} of", transitions.get(self.model, task_id)
        if row is None:
            return refusals.not_found_error(self.model, task_id, operation)
        if mismatch := refusals.payload_mismatch(self.statements, row, payload, operation):
            return mismatch
        if not (refusals.is_startable(row, self.codes, clock.now()) or row.status in self.also_from):
            return refusals.refusal(self.statements, row, operation)
        cannot = f"cannot {operation} {self.model.__name__} {task_id!r}"
        if pause is not None:
            return StepPausedError(f"{cannot}: {pause}", task_id=task_id, task=row, until=pause.until)
        return ConcurrencyLimitReachedError(f"{cannot}: {self.slots()}", task_id=task_id, task=row)

    def check_index(self) -> None:
        """Read the index once, to find problems such as a missing table."""
        next(self.due_codes_in(0, self.codes.pending).ids(limit=1), None)

    def codes_to_do(self, only: States) -> frozenset[int]:
        codes = set()
        for state in _sequence("only", only):
            code = self._code_of(state)
            if code not in (self.codes.pending, self.codes.failed, self.codes.in_progress):
                step = f"{self.model.__name__}.{self.declared.name}"
                raise ValueError(
                    f"only has {state!r}, but a due task is in {step}.pending or {step}.failed, or in "
                    f"{step}.in_progress after its worker died"
                )
            codes.add(code)
        return frozenset(codes)

    def codes_to_start_from(self, states: States) -> frozenset[int]:
        codes = set()
        for state in _sequence("also_from", states):
            code = self._code_of(state)
            if code not in self.states:
                raise ValueError(f"also_from has {state!r}, which is not a state of {self.model.__name__}")
            if end_of(code) == "cancelled":
                raise ValueError(f"also_from has {state!r}: only {self.model.__name__}.reopen(id) lets it start again")
            if self.states[code].status is Status.IN_PROGRESS:
                raise ValueError(f"also_from has {self.states[code]}, but a task in progress belongs to its worker")
            codes.add(code)
        return frozenset(codes - {self.codes.pending, self.codes.failed})

    def _code_of(self, state: object) -> int | None:
        if isinstance(state, DeclaredState):
            bound = self.model._bound_steps.get(state.step.name)
            of: StepDefinition[Any] | None = bound and bound._definition
            if of is not None and of.declared is state.step:
                return of.codes.code(state.status)
        elif isinstance(state, State) and state.use_case_id == self.model.tracker.use_case.name:
            return state.code
        return None


_listeners: tuple[weakref.ref[Any], ...] = ()


def add_listener(listener: Any) -> None:
    """Call `note_created` of this dispatcher for each new task of this process, as long as the dispatcher exists."""
    global _listeners  # noqa: PLW0603 - replaced as a whole, so that no thread sees it change
    _listeners = (*(each for each in _listeners if each() is not None), weakref.ref(listener))


def note_created(task: TaskRow) -> None:
    model = type(task)
    for each in _listeners:
        if (listener := each()) is not None:
            listener.note_created(NewlyDue(model, task.task_id, task.status, task.creation or "", task.due_time))
    if model.tracker.use_case.count_transitions:
        from pynamodb_tracker.control import flow  # noqa: PLC0415 - few use cases count

        flow.count(model, flow.CREATED)


def _sequence(name: str, states: object) -> Iterable[object]:
    if isinstance(states, State | DeclaredState):
        written = str(states)
        if isinstance(states, State) and states.status is not None:
            written = f"{states.model.__name__}.{states.step}.{states.status}"
        raise TypeError(f"{name} must be a sequence of states, not one: write {name}=({written},)")
    if isinstance(states, str) or not isinstance(states, Iterable):
        raise TypeError(
            f"{name} must be a sequence of states, not {arguments.shown(states)}: write {name}=(ship.failed,)"
        )
    return states
