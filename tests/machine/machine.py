"""The state machine: a few tasks, their runs, a person and a bad network, compared with a small model."""

import contextlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)
from pynamodb.attributes import UnicodeAttribute

from pynamodb_tracker import (
    ExecutionContext,
    GiveUp,
    LockLostError,
    RetryLater,
    Step,
    Task,
    TaskAlreadyExistsError,
    TaskAlreadySucceededError,
    TaskIgnoredError,
    TaskLockedError,
    TaskNotFoundError,
    TaskNotReadyError,
    TaskNotStartableError,
    UseCase,
)
from pynamodb_tracker.clock import stamp
from pynamodb_tracker.model.worker_name import this_worker
from pynamodb_tracker.testing import StoppedClock
from tests.machine.faults import Network

MARGIN = timedelta(seconds=2)
LOCK = timedelta(seconds=30)
DELAY = timedelta(seconds=10)
AGE = timedelta(seconds=60)
"""For how long after its first failure the second step is tried."""
MAX_ATTEMPTS = 2
TASKS = ["a", "a", "a", "b"]
START = datetime(2026, 1, 1, tzinfo=UTC)

faults = st.sampled_from(["none", "none", "lost answer", "late copy", "late original"])
ENDS = ["succeed", "fail", "fail", "postpone", "postpone", "give_up", "release"]
PASTS: list[list[str]] = [[], ["postpone"], ["postpone", "succeed"]]
"""How the first runs of the first task end: by chance alone, few tasks succeed after a postponement."""
urgent = st.sampled_from([False, False, True])
wrong_step = st.sampled_from([False] * 5 + [True])


def order_class(table: type[Task]) -> type[Any]:
    class Order(table):  # type: ignore[misc, valid-type]  # a class of a table that the fixture makes
        use_case_id = UseCase("order", status_shards=2, urgent=True)
        pay = Step(10, max_attempts=MAX_ATTEMPTS, lock_for=LOCK, retry_delay=DELAY)
        ship = Step(20, max_attempts=MAX_ATTEMPTS, lock_for=LOCK, give_up_after=AGE)
        asked_for = UnicodeAttribute(null=True)

    return Order


@dataclass
class Run:
    task_id: str
    step: int
    ctx: ExecutionContext[Any]
    manager: Any
    fence: int
    took_over: bool
    saved: int = 0


@dataclass
class Row:
    """What the model knows of a task."""

    code: int
    due: datetime
    attempt: int = 0
    fence: int = 0
    expire: datetime = START
    holder: Run | None = None
    data: int = 0
    postponed: int = 0
    first_failure: datetime | None = None
    """Of the second step."""
    newest: tuple[int, int] = (0, 0)
    """Step and count of the newest entry of its failures, if that is a postponement; otherwise zeros."""
    urgent: bool = False


@dataclass
class World:
    """Engine, clock and network of one run of the machine; the tests give it."""

    order: Any
    clock: StoppedClock
    network: Network


class Machine(RuleBasedStateMachine):
    """Drives every verb in any order; each rule says what must come of it, and the invariants what must hold."""

    world: World
    runs = Bundle("runs")

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[str, Row] = {}
        self.refused_claims: set[str] = set()
        self.values = 0
        self.entered: list[Run] = []

    @property
    def now(self) -> datetime:
        return self.world.clock.now()

    def steps(self, number: int) -> Any:
        return {10: self.world.order.pay, 20: self.world.order.ship}[number]

    def startable(self, row: Row, step: int) -> bool:
        waiting = row.code in (step, step + 2) and row.due <= self.now + MARGIN
        return waiting or self.abandoned(row, step)

    def abandoned(self, row: Row, step: int) -> bool:
        return row.code == step + 1 and row.expire < self.now - MARGIN

    def bad_network(self, fault: str, note: str = "") -> None:
        self.world.network.fault, self.world.network.note = fault, note

    def move(self, row: Row, code: int, *, delay: timedelta = timedelta(0), attempt: int | None = None) -> None:
        row.code, row.due = code, self.now + delay
        row.attempt = row.attempt if attempt is None else attempt
        if code % 10 == 3:
            row.newest = 0, 0

    @initialize(step=st.sampled_from([10, 20]), fault=faults, ends=st.sampled_from(PASTS))
    def begin(self, step: int, fault: str, ends: list[str]) -> None:
        self.create("a", step, fault, urgent=False)
        for how in ends:
            getattr(self, how)(self.claim("a", wrong=False, fault="none", detail=True), "none")
            self.wait(DELAY.total_seconds())

    @rule(task_id=st.sampled_from(TASKS), step=st.sampled_from([10, 20]), fault=faults, urgent=urgent)
    def create(self, task_id: str, step: int, fault: str, urgent: bool) -> None:  # noqa: FBT001 - drawn by name
        self.world.clock.advance(timedelta(microseconds=1))  # a repeated create knows its row by its create_time
        self.bad_network(fault, "create")
        try:
            self.world.order.create(task_id, state=self.steps(step).pending, urgent=urgent)
        except TaskAlreadyExistsError:
            assert task_id in self.rows
        else:
            assert task_id not in self.rows
            self.rows[task_id] = Row(step, self.now, urgent=urgent)

    def step_of(self, task_id: str, *, wrong: bool) -> int:
        row = self.rows.get(task_id)
        return 10 if (row is None or row.code < 20) is not wrong else 20

    @rule(target=runs, task_id=st.sampled_from(TASKS), wrong=wrong_step, fault=faults, detail=st.booleans())
    def claim(self, task_id: str, wrong: bool, fault: str, detail: bool) -> Any:  # noqa: FBT001 - drawn by name
        row, step = self.rows.get(task_id), self.step_of(task_id, wrong=wrong)
        startable = row is not None and self.startable(row, step)
        spent = row is not None and startable and row.attempt >= MAX_ATTEMPTS
        self.bad_network(fault, f"claim {task_id} {step}")
        manager = self.steps(step).start(task_id, detailed_error=detail)
        try:
            ctx = manager.__enter__()
        except TaskNotStartableError as refusal:
            self.check_refusal(refusal, row, step, startable=startable, spent=spent)
            if fault.startswith("late"):
                self.world.network.late[-1].note += " refused"
            return multiple()
        assert row is not None
        assert startable
        assert not spent
        run = Run(task_id, step, ctx, manager, row.fence + 1, self.abandoned(row, step))
        self.move(row, step + 1, delay=LOCK, attempt=row.attempt + 1)
        row.fence, row.expire, row.holder = row.fence + 1, self.now + LOCK, run
        assert (ctx.attempt, ctx.task.fence, ctx.lock_expire_time) == (row.attempt, row.fence, row.expire)
        self.entered.append(run)
        return run

    def check_refusal(
        self, refusal: TaskNotStartableError, row: Row | None, step: int, *, startable: bool, spent: bool
    ) -> None:
        if spent and row is not None and type(refusal) is TaskIgnoredError:
            self.move(row, step + 3)
            row.holder = None
            return
        assert not startable or type(refusal) is TaskNotStartableError  # without detail, it does not become ignored
        assert not startable or spent
        if type(refusal) is TaskNotStartableError:
            return
        assert type(refusal) is self.expected_refusal(row, step)

    def expected_refusal(self, row: Row | None, step: int) -> type[TaskNotStartableError]:
        if row is None:
            return TaskNotFoundError
        if row.code == step + 1:
            return TaskLockedError
        if row.code >= (20 if step == 10 else 1000):
            return TaskAlreadySucceededError
        return TaskIgnoredError if row.code == step + 3 else TaskNotReadyError

    def is_mine(self, run: Run) -> bool:
        row = self.rows[run.task_id]
        return row.holder is run and row.code == run.step + 1

    def leave(self, run: Run, error: BaseException | None, fault: str) -> bool:
        """Leave the block by that exception, or none; return whether the end is on record."""
        self.bad_network(fault, "finish")
        self.entered.remove(run)
        lost = False
        try:
            run.manager.__exit__(type(error) if error else None, error, None)
        except LockLostError:
            assert error is None
            lost = True
        except BaseException as left:
            if left is not error:  # any exception of the block propagates unchanged
                raise
        if error is not None:
            lost = bool(getattr(error, "__notes__", []))
        assert lost is not self.is_mine(run)
        if run.took_over and not lost:  # the end also records the dead worker's attempt
            self.rows[run.task_id].newest = 0, 0
        return not lost

    @rule(run=consumes(runs), how=st.sampled_from(ENDS), fault=faults)
    def end(self, run: Run, how: str, fault: str) -> None:
        getattr(self, how)(run, fault)

    def succeed(self, run: Run, fault: str) -> None:
        self.values += 1
        run.ctx.task.data["value"] = self.values
        if self.leave(run, None, fault):
            row = self.rows[run.task_id]
            self.finished(run, row)
            row.data, row.holder, row.postponed, row.first_failure = self.values, None, 0, None

    def finished(self, run: Run, row: Row) -> None:
        self.move(row, 20 if run.step == 10 else 1000, attempt=0)

    def fail(self, run: Run, fault: str) -> None:
        run.ctx.task.data["value"] = -1
        if self.leave(run, ValueError("no"), fault):
            row = self.rows[run.task_id]
            final = row.attempt >= MAX_ATTEMPTS or self.is_too_old(row)
            self.move(row, run.step + 3 if final else run.step + 2, delay=DELAY * (run.step == 10 and not final))
            row.newest, row.holder = (0, 0), None
            self.note_first_failure(run, row, final=final)

    def postpone(self, run: Run, fault: str) -> None:
        if self.leave(run, RetryLater(DELAY, "later", use_attempt=False), fault):
            row = self.rows[run.task_id]
            final, (step, count), row.holder = self.is_too_old(row), row.newest, None
            if final:
                self.move(row, run.step + 3)
            else:
                self.move(row, run.step + 2, delay=DELAY, attempt=row.attempt - 1)
                row.postponed += 1
                row.newest = run.step, count + 1 if step == run.step else 1
            self.note_first_failure(run, row, final=final)

    def is_too_old(self, row: Row) -> bool:
        return row.first_failure is not None and self.now - row.first_failure > AGE

    def note_first_failure(self, run: Run, row: Row, *, final: bool) -> None:
        if run.step == 20 and not final:
            row.first_failure = row.first_failure or self.now

    def give_up(self, run: Run, fault: str) -> None:
        if self.leave(run, GiveUp("never"), fault):
            row = self.rows[run.task_id]
            self.move(row, run.step + 3)
            row.holder = None

    def release(self, run: Run, fault: str) -> None:
        if self.leave(run, KeyboardInterrupt(), fault):
            row = self.rows[run.task_id]
            self.move(row, run.step, attempt=row.attempt - 1)
            row.holder = None

    @rule(run=runs, seconds=st.sampled_from([0, 0, 1, 40, 90]), fault=faults)
    def hold(self, run: Run, seconds: int, fault: str) -> None:
        """Save, or extend the lock by some seconds; a run that is never ended has died."""
        if run in self.entered and seconds:
            self.extend(run, seconds, fault)
        elif run in self.entered:
            self.save(run, fault)

    def extend(self, run: Run, seconds: int, fault: str) -> None:
        self.bad_network(fault, "extend")
        row, mine = self.rows[run.task_id], self.is_mine(run)
        try:
            run.ctx.extend_lock(timedelta(seconds=seconds))
        except LockLostError:
            assert not mine
        else:
            assert mine
            row.expire = max(row.expire, self.now + timedelta(seconds=seconds))
            assert run.ctx.lock_expire_time == row.expire

    def save(self, run: Run, fault: str) -> None:
        self.bad_network(fault, "save")
        self.values += 1
        mine = self.is_mine(run)
        run.ctx.task.data["value"] = self.values
        try:
            run.ctx.save()
        except LockLostError:
            assert not mine
        else:
            assert mine
            self.rows[run.task_id].data = self.values

    @rule(
        task_id=st.sampled_from(TASKS),
        wrong=wrong_step,
        order=st.sampled_from(["reopen", "hurry", "ignore", "revoke"]),
        fault=faults,
    )
    def order(self, task_id: str, wrong: bool, order: str, fault: str) -> None:  # noqa: FBT001 - drawn by name
        getattr(self, order)(task_id, self.step_of(task_id, wrong=wrong), fault)

    def hurry(self, task_id: str, step: int, fault: str) -> None:
        self.reopen(task_id, step, fault, urgent=True)

    def reopen(self, task_id: str, step: int, fault: str, *, urgent: bool = False) -> None:
        row = self.rows.get(task_id)
        refusal: TaskNotStartableError | None = None
        self.bad_network(fault, f"reopen {task_id} {step}")
        try:
            self.steps(step).reopen(task_id, urgent=urgent)
        except TaskNotStartableError as caught:
            refusal = caught
        if refusal is not None:
            assert row is None or row.code not in (step, step + 2, step + 3)
            assert type(refusal) is self.expected_refusal(row, step)
            if fault.startswith("late"):
                self.world.network.late[-1].note += " refused"
        else:
            assert row is not None
            assert row.code in (step, step + 2, step + 3)
            row.urgent |= urgent
            if row.code != step:
                self.move(row, step, attempt=0)
                row.postponed, row.first_failure = 0, None

    def ignore(self, task_id: str, step: int, fault: str) -> None:
        row = self.rows.get(task_id)
        allowed = row is not None and (row.code in (step, step + 2, step + 3) or self.abandoned(row, step))
        self.bad_network(fault, "ignore")
        try:
            self.steps(step).ignore(task_id, reason="a person said so")
        except TaskNotStartableError:
            assert not allowed
        else:
            assert allowed
            assert row is not None
            if row.code != step + 3:
                self.move(row, step + 3)
                row.holder = None

    def revoke(self, task_id: str, step: int, fault: str) -> None:
        """Release by command, whether the worker has died or not."""
        row = self.rows.get(task_id)
        allowed = row is not None and row.code in (step, step + 1, step + 2)
        self.bad_network(fault, "revoke")
        try:
            self.steps(step).unlock(task_id, reason="a person said so", worker=this_worker())
        except TaskNotStartableError:
            assert not allowed
        else:
            assert allowed
            assert row is not None
            if row.code == step + 1:
                self.move(row, step)
                row.newest, row.holder = (0, 0), None

    @rule(seconds=st.sampled_from([0.000001, 1, 3, 11, 29, 33, 100]))
    def wait(self, seconds: float) -> None:
        self.world.clock.advance(timedelta(seconds=seconds))

    @precondition(lambda self: self.world.network.late)
    @rule(which=st.integers(0, 9), seconds=st.sampled_from([0, 11, 33]))
    def arrive_late(self, which: int, seconds: int) -> None:
        """Deliver a request that was given up long ago: it has no effect, unless it is a refused claim or reopen."""
        self.wait(seconds)
        late = self.world.network.late.pop(which % len(self.world.network.late))
        if not late.deliver():
            return
        assert late.note.endswith(" refused"), f"a late {late.note} was applied: {late.request}"
        order, task_id, step, _ = late.note.split()
        row, number = self.rows[task_id], int(step)
        values = late.request["ExpressionAttributeValues"].values()
        times = sorted(value["S"] for value in values if value.get("S", "").endswith("+0000"))
        row.due = datetime.strptime(times[-1], "%Y-%m-%dT%H:%M:%S.%f%z")
        if order == "reopen":  # it was refused while the task was in progress, and that has failed since
            assert row.code in (number + 2, number + 3)
            row.code, row.attempt, row.postponed, row.first_failure = number, 0, 0, None
            row.urgent |= {"BOOL": True} in values
            return
        assert row.attempt < MAX_ATTEMPTS
        row.code, row.attempt, row.fence, row.holder = number + 1, row.attempt + 1, row.fence + 1, None
        row.expire = row.due

    @invariant()
    def every_row_is_as_the_model_says(self) -> None:
        self.world.network.fault = "none"
        for task_id, row in self.rows.items():
            stored = self.world.order.get_task(task_id)
            assert (stored.status, stored.attempt, stored.fence) == (row.code, row.attempt, row.fence)
            assert stored.due_time == row.due
            assert stored.urgent is (row.urgent or None)
            assert stored.status_key == self.world.order.tracker.status_key(row.code, task_id, is_urgent=row.urgent)
            assert stored.update_time <= stored.due_time
            assert stored.data.get("value", 0) == row.data
            assert 0 <= stored.attempt <= MAX_ATTEMPTS
            assert (stored.postpone_count or 0) == row.postponed
            first = row.first_failure and stamp(row.first_failure)
            assert (stored.first_failure or "").partition(" ")[0] == (first or "")
            if row.newest[1]:
                assert (stored.errors[-1].type, stored.errors[-1].count) == ("RetryLater", row.newest[1])
            if row.code % 10 == 1:
                assert stored.lock_expire_time == row.expire

    def every_row_is_found_under_exactly_its_state(self) -> None:
        """Check the index at the end of a history; before that, `status_key` and `due_time` of a row are its entry."""
        self.world.network.fault = "none"
        by_code: dict[int, set[str]] = {}
        for task_id, row in self.rows.items():
            by_code.setdefault(row.code, set()).add(task_id)
        counts = self.world.order.counts()
        assert {state.code: number for state, number in counts.items() if number} == {
            code: len(ids) for code, ids in by_code.items()
        }
        for state in counts:
            if state.code in by_code:
                assert {task.task_id for task in state.query()} == by_code[state.code]

    def teardown(self) -> None:
        """Check the index, then leave every open block silently: what is not recorded by now was never meant to be."""
        try:
            self.every_row_is_found_under_exactly_its_state()
        finally:
            self.clean_up()

    def clean_up(self) -> None:
        self.world.network.fault = "none"
        for run in self.entered:
            with contextlib.suppress(BaseException):
                run.manager.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
        for task_id in self.rows:
            self.world.clock.advance(timedelta(hours=1))
            self.world.order.delete_task(task_id)
        self.world.network.late.clear()
