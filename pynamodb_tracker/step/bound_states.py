"""The states of a step that is bound to its class: by their names, and by those that an argument lists."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from pynamodb_tracker.arguments import shown
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.status import Codes, Status
from pynamodb_tracker.step.declared import DeclaredState, States, Step
from pynamodb_tracker.step.state import State

__all__ = ["BoundStates"]

T = TypeVar("T", bound=TaskRow)

_NONE = frozenset[int]()


class BoundStates(Generic[T]):
    """The states of a step, and the codes of states that are given to it."""

    def __init__(self, model: type[T], declared: Step, codes: Codes, states: dict[int, State[T]]) -> None:
        """`states` are those of all steps of the class, by code."""
        self.model = model
        self.name = declared.name
        self.declared = declared
        self.codes = codes
        self._states = states

    @property
    def pending(self) -> State[T]:
        """Waits for an attempt."""
        return self._states[self.codes.pending]

    @property
    def in_progress(self) -> State[T]:
        """A worker holds the lock, or died with it."""
        return self._states[self.codes.in_progress]

    @property
    def failed(self) -> State[T]:
        """The last attempt failed, and another one is allowed."""
        return self._states[self.codes.failed]

    @property
    def ignored(self) -> State[T]:
        """Set aside; waits for a person."""
        return self._states[self.codes.ignored]

    @property
    def succeeded(self) -> State[T]:
        """Done: pending of the next step, or the end."""
        return self._states[self.codes.succeeded]

    def codes_to_start_from(self, states: States) -> frozenset[int]:
        """Return the codes of `also_from`, but for those from which each run starts; ValueError for no such state."""
        if states == ():
            return _NONE
        codes = set()
        for state in _sequence("also_from", states):
            code = self._code_of(state)
            if code not in self._states:
                raise ValueError(f"also_from has {state!r}, which is no state of {self.model.__name__}")
            if self._states[code].status is Status.IN_PROGRESS:
                raise ValueError(f"also_from has {self._states[code]}: a task in progress belongs to its worker")
            codes.add(code)
        return frozenset(codes - {self.codes.pending, self.codes.failed})

    def codes_to_do(self, only: States) -> frozenset[int]:
        """Return the codes of `only`; ValueError for a state in which this step has nothing to do."""
        codes = set()
        for state in _sequence("only", only):
            code = self._code_of(state)
            if code not in (self.codes.pending, self.codes.failed, self.codes.in_progress):
                step = f"{self.model.__name__}.{self.name}"
                raise ValueError(
                    f"only has {state!r}: {step} has something to do in {step}.pending, {step}.failed and, where a "
                    f"worker left a task behind, {step}.in_progress"
                )
            codes.add(code)
        return frozenset(codes)

    def _code_of(self, state: object) -> int | None:
        if isinstance(state, DeclaredState):
            bound = vars(self.model)["_bound_steps"].get(state.step.name)
            return bound.codes.code(state.status) if bound and bound.declared is state.step else None
        if isinstance(state, State):
            return state.code if state.use_case_id == self.model.tracker.use_case.name else None
        return None


def _sequence(name: str, states: object) -> Iterable[object]:
    """Return states that are given as a sequence; TypeError for a single one, and for what is none."""
    if isinstance(states, State | DeclaredState):
        raise TypeError(f"{name} is a sequence of states, not one: write {name}=({states},)")
    if isinstance(states, str) or not isinstance(states, Iterable):
        raise TypeError(f"{name} is a sequence of states, not {shown(states)}: write {name}=(ship.failed,)")
    return states
