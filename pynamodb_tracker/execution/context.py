"""The context of a block: its task, its attempt, and its lock."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar
from uuid import UUID, uuid5

from pynamodb_tracker import clock, strict_json, transitions
from pynamodb_tracker.arguments import (
    check_due_time,
    check_duration,
    check_flags,
    check_key,
    check_text,
    named_as,
    shown,
)
from pynamodb_tracker.dynamodb.retries import persist
from pynamodb_tracker.exceptions import LockLostError
from pynamodb_tracker.model.results import result_text
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.model.signals import SignalName, check_signal
from pynamodb_tracker.status import END, Codes

if TYPE_CHECKING:
    from pynamodb.transactions import TransactWrite

    from pynamodb_tracker.features.groups.queue import GroupOfRun
    from pynamodb_tracker.model.repeat import Repeat

R = TypeVar("R")
T_co = TypeVar("T_co", bound=TaskRow, covariant=True)

_KEYS = "c35a0403-3bd7-4447-90b4-5ac3aa414434"
"""The namespace of all idempotency keys. A different one would repeat effects under new keys."""


_LONGEST_PART = 64  # characters in the name of a part
TRIES = 3  # how often a lock that has expired before its block is extended: these responses may be late as well


class StepOfTask(Protocol):
    """A bound step."""

    name: str
    number: int


@named_as("ctx")
class BlockContext(Generic[T_co]):
    """The part of a context that sends no request."""

    invocation: Any = None
    """Lambda's context object if a handler of `aws_lambda` runs the function, otherwise None."""

    _given_limits: Mapping[timedelta, datetime] = MappingProxyType({})
    """The durations that the block has given as limits for waiting, and their times."""

    def __init__(self, journal: transitions.Journal[T_co], lock_for: timedelta) -> None:
        self._journal = journal
        self._claim = journal.claim
        self._lock_for = lock_for

    @property
    def task(self) -> T_co:
        """The row. Assignments of the block are saved with the success, or not at all."""
        return self._claim.task

    @property
    def occurrence(self) -> datetime | None:
        """The time of its rule for which the task runs, in the rule's time zone. None if it does not repeat.

        It stays the same in each attempt, so ids of other tasks can contain it. If the task missed occurrences before
        its first attempt, it is the latest of them, unless the rule has missed="all". A run that `create_or_merge`
        requested has the requested time.
        """
        task = self._claim.task
        extra_time: datetime | None = task.extra_time
        if task.repeat is None or extra_time is None:
            return task.occurrence
        return extra_time.astimezone(task.repeat.zone)

    @property
    def round(self) -> str:
        """The current round of the task. Pass it to the sender of a signal, who sends it back."""
        return self._claim.round

    @property
    def attempt(self) -> int:
        """The number of this attempt of the step, from 1. Attempts of workers that died count."""
        return self._claim.attempt

    @property
    def fencing_token(self) -> str:
        """24 hex digits that sort after all earlier claims of the task, so other systems can refuse lower ones.

        The order of the claims of one task is guaranteed. It depends on clocks after the task was deleted, expired or
        restored from a backup, and between tasks: the first 16 digits are nanoseconds since 1970 by the worker's clock,
        or more.
        """
        return self._claim.token

    @property
    def idempotency_key(self) -> str:
        """36 characters for a call to another system that must take effect once: the same in every attempt.

        It stays the same after a takeover, a `reopen`, a renaming of the step, a fail-over, or a merge by
        `create_or_merge`. It changes with each occurrence of a repeating task, with a run that `create_or_merge`
        requests while the task runs or after its end, with a start from the end by `also_from`, and with a task that
        was deleted and created again. For several calls in one step, see `key`.
        """
        return self._key("")

    def key(self, name: str) -> str:
        """Return an idempotency key for one of several calls of this step, such as `ctx.key("charge")`.

        The name should contain values that a merge may change, such as an amount. TypeError or ValueError without a
        name.

        Examples:
            >>> charge_key, mail_key = ctx.key("charge"), ctx.key("mail")
        """
        check_text("name", name)
        if not name:
            raise ValueError("key takes a name for the call, such as 'charge'; for the only one, use idempotency_key")
        return self._key(name)

    def _key(self, name: str) -> str:
        codes = self._claim.statements.codes
        parts = [codes.use_case_id, self.task.task_id, codes.pending, self._claim.round, name]
        return str(uuid5(UUID(_KEYS), strict_json.dumps(parts, separators=(",", ":"))))

    @property
    def outcome(self) -> Literal["succeeded", "failed", "ignored", "released"] | None:
        """The recorded end of the run, or None before that, or if it could not be recorded.

        The task's state may differ: after a success, the task may be due again.
        """
        return self._journal.outcome

    @property
    def lock_expire_time(self) -> datetime:
        """When the lock expires. Before that, no other worker takes the task."""
        return self._claim.expire_time

    @property
    def lock_lost(self) -> bool:
        """Whether this worker can no longer assume that it holds the task. Reading it sends no request.

        It becomes True for good once a heartbeat, a `save` or an `extend_lock` finds that the lock is lost. These then
        raise LockLostError. It is also True while the lock has expired by this clock, for example in a process that was
        frozen. A later heartbeat or `extend_lock` resets that if no other worker took the task. It is True in a process
        that was forked inside the block, which does not hold the task. After the end of the run is recorded, there is
        no lock to lose.
        """
        claim = self._claim
        has_expired = self.outcome is None and claim.expire_time <= clock.now()
        return self._journal.lost is not None or claim.is_foreign or has_expired

    def store_result(self, result: object) -> None:
        """Store a JSON value with the success, as the result of repeated calls. `step.result` reads it.

        It is written together with the success, or not at all, and replaces the result of an earlier run of the step.
        None, or a success without a result, removes that. The limit is 262,144 bytes of JSON, and every write of the
        task is charged for them. Larger values raise ValueNotStorableError. The results of all steps share the row,
        which holds 400 KB: if one does not fit, the task is given up at once. A transaction that records the success
        stores a result from before its commit.

        Examples:
            >>> ctx.store_result({"receipt": "r-1"})
        """
        with self._holding("store the result of"):
            self._journal.result = result_text(result, self.task.task_id)
            self._journal.expects_result = False

    def check_in(self, transaction: TransactWrite) -> None:
        """Add a check to your own transaction, which cancels it unless this run holds the task at the commit.

        The check is its first action, and so the first of the `cancellation_reasons` in PynamoDB's TransactWriteError.
        It is on the task's row, so the transaction cannot write that row. LockLostError if the lock is known to be
        lost.

        Examples:
            >>> with TransactWrite(connection=Connection("us-east-1")) as transaction:
            ...     ctx.check_in(transaction)
            ...     transaction.update(Order.get_task("o-2"), [Order.tracking_no.set("T-1")])
        """
        from pynamodb.transactions import TransactWrite  # noqa: PLC0415 - few cold starts need it

        from pynamodb_tracker.execution.transaction import TaskTransaction  # noqa: PLC0415 - as above

        given: object = transaction
        if not isinstance(given, TransactWrite) or isinstance(given, TaskTransaction):
            raise TypeError(
                f"check_in takes a TransactWrite of your own, not {transaction!r}; ctx.transaction() checks by itself"
            )
        with self._holding("check the lock in a transaction of"):
            transitions.check_in(self._claim, transaction)

    def _check_process(self, operation: str) -> None:
        """Refuse an operation in a process that was forked inside the block."""
        claim = self._claim
        if claim.is_foreign:
            raise LockLostError(
                f"cannot {operation} {claim.step} of {self.task.task_id!r}: {claim.describe_foreign()}; only the "
                "process that claimed a task holds it",
                task_id=self.task.task_id,
            )

    @contextmanager
    def _holding(self, operation: str) -> Iterator[None]:
        """Refuse an operation if the block has ended or the lock is known to be lost. Remember a new loss."""
        self._check_process(operation)
        if self._journal.ended:
            pending = self._journal.pending_success
            why = "a transaction has recorded its success" if pending and pending.recorded else "the block has ended"
            raise LockLostError(
                f"cannot {operation} {self._claim.step} of {self.task.task_id!r}: {why}, which released the lock",
                task_id=self.task.task_id,
            )
        self._journal.check()
        try:
            yield
        except LockLostError as proof:
            self._journal.note_refusal(proof)
            raise

    def __repr__(self) -> str:
        name, step = type(self.task).__name__, self._claim.step
        claim = f"attempt {self.attempt} fence {self._claim.fence}"
        return f"<{type(self).__name__} {name}.{step} {self.task.task_id!r} {claim}>"


class ExecutionContext(BlockContext[T_co]):
    """One attempt of one step of one task, which this worker has locked."""

    @property
    def group(self) -> GroupOfRun:
        """The group of the task: its `name`, and the shared `data` of its tasks.

        `data` is a dictionary, read on first access, and saved with the success if the block has changed it. The limit
        is 350,000 bytes of JSON. AttributeError for a task without a group.
        """
        additions = self._journal.additions
        if additions.get("group") is None:
            if self.task.group is None:
                raise AttributeError(
                    f"{type(self.task).__name__} {self.task.task_id!r} has no group: it was created without group=",
                    name="group",
                    obj=self,
                )
            from pynamodb_tracker.features.groups.queue import GroupOfRun  # noqa: PLC0415 - few cold starts need it

            additions["group"] = GroupOfRun(self.task)
        group: GroupOfRun = additions["group"]
        return group

    def checkpoint(self, name: str, function: Callable[[], R]) -> R:
        """Call a function whose effect must not be repeated, and return its result. No later attempt calls it again.

        One request stores the result at once, and every attempt gets it as it is read back. If the function raises, or
        the worker dies in it, the next attempt calls it again, so pass `ctx.key(name)` to the other system. If storing
        gets no response, the end of the run stores the result. The success of the step removes its results. A request
        costs 1 write unit per started KB of the row.

        Args:
            name: The name of the part, which is used up once the result is stored.
            function: Its result has at most 1,024 bytes as JSON. All results of a task have at most 8,192 bytes.

        Raises:
            GiveUp: The result cannot be stored. The task becomes ignored.
            LockLostError: Another worker has the task.

        Examples:
            >>> receipt = ctx.checkpoint("charge", lambda: f"paid by {ctx.key('charge')}")
        """
        found = self._begin_part(name)
        if found is None:
            try:
                result = function()
                if isinstance(result, Coroutine):
                    result.close()
                    raise TypeError(
                        f"part {name!r} returned a coroutine: await ctx.checkpoint(...) in an async function"
                    )
                found = self._store_part(name, result)
            finally:
                self._end_part(name)
        stored: R = json.loads(found)
        return stored

    def _begin_part(self, name: str) -> str | None:
        """Return the stored result of a part as JSON, or None if the part has to run."""
        from pynamodb_tracker.features.checkpoints import parts_of  # noqa: PLC0415 - few runs have parts

        if not 0 < len(check_text("name", name) or "") <= _LONGEST_PART:
            raise ValueError(f"once takes a name of 1 to {_LONGEST_PART} characters for the part, such as 'charge'")
        check_key("name of a part", name)  # before the part is done: it could not be stored
        with self._asking("run a part of"):
            return parts_of(self._journal).begin(name)

    def _store_part(self, name: str, result: object) -> str:
        with self._writing("store a part of"):
            text: str = self._journal.additions["checkpoints"].store(name, result)
            return text

    def _end_part(self, name: str) -> None:
        self._journal.additions["checkpoints"].end(name)

    def extend_lock(self, lock_for: timedelta | None = None) -> None:
        """Hold the task until `lock_for` from now, by default the duration of the start. It never shortens the lock.

        This takes one request and 1 write unit per started KB of the row. LockLostError if another worker has the task.

        Examples:
            >>> ctx.extend_lock(timedelta(minutes=10))
        """
        duration = self._lock_for if lock_for is None else check_duration("lock_for", lock_for)
        with self._holding("extend the lock of"):
            persist(self._claim, partial(transitions.extend, self._claim, duration), "an extension of the lock")

    def save(self) -> None:
        """Save the assignments of the block so far, while the lock is held. They stay even if the block fails later.

        Without changes, it sends nothing. LockLostError if another worker has the task, ValueNotStorableError if a
        value cannot be stored.

        Examples:
            >>> ctx.task.data["page"] = 7
            >>> ctx.save()
        """
        with self._writing("save"):
            transitions.save(self._journal)

    def create(
        self,
        model: type[TaskRow],
        /,
        task_id: str,
        *,
        wait: bool = False,
        due_time: datetime | timedelta | None = None,
        group: str | None = None,
        repeat: Repeat | None = None,
        trace: Mapping[str, str] | None = None,
        wait_for: SignalName[Any] | None = None,
        until: datetime | timedelta | None = None,
        urgent: bool = False,
        **attributes: object,
    ) -> None:
        """Create a task of the same table together with the success of this run, or not at all. No extra request.

        It checks the arguments at once. If this task has created the other one before, in an earlier attempt or before
        a reopen, that counts as created. Any other task with that id makes the attempt fail with a
        TaskAlreadyExistsError, so derive ids from this task's: f"{ctx.task.task_id}/invoice". This costs 2 write units
        per started KB of the new row, and 1 for its index entry, and doubles the write units of the success. With more
        than 98 tasks, the first ones are created before the success, while the lock is held.

        Args:
            model: The use case of the new task.
            task_id: The id of the new task.
            wait: The next step of this task is due once all tasks created like that have succeeded at their last step,
                or were deleted. While one of them is ignored, it waits for a person. At most 97 tasks, and not at the
                last step.
            due_time: As in `Task.create`.
            group: As in `Task.create`. The task enters the group with the success. At most 31 tasks.
            repeat: As in `Task.create`, with one more request.
            trace: As in `Task.create`, by default the trace of this task.
            wait_for: As in `Task.create`: a signal that the new task waits for.
            until: As in `Task.create`.
            urgent: As in `Task.create`. A task that an urgent one creates is not urgent by itself.
            **attributes: Attributes of the new task.

        Raises:
            ValueError: The model is of another table, an id is used twice, or a limit of `wait` is exceeded.

        Examples:
            >>> ctx.create(Order, f"{ctx.task.task_id}-gift", wait=True)
        """
        check_flags(wait=wait)
        from pynamodb_tracker.features.children.follow_ups import follow_ups_of  # noqa: PLC0415 - few cold starts need it

        given: dict[str, Any] = {"due_time": due_time, "group": group, "repeat": repeat, "trace": trace, **attributes}
        with self._asking("create a follow-up of"):
            follow_ups_of(self._journal).create(
                model, task_id, wait=wait, wait_for=wait_for, until=until, urgent=urgent, **given
            )
        if repeat is not None:
            from pynamodb_tracker.control.records import add_schedule  # noqa: PLC0415 - few tasks repeat

            add_schedule(model, task_id)

    def wait_until(self, time: datetime | timedelta) -> None:
        """Let the next step start at that time, or so long from now, even if it still waits for tasks created here.

        It is due earlier once all of them have succeeded. `ctx.task.blockers` says how many have not. It sends nothing,
        and has no effect without a `create(..., wait=True)` or a `wait_for`. ValueError at the last step.

        Examples:
            >>> ctx.create(Order, f"{ctx.task.task_id}-gift", wait=True)
            >>> ctx.wait_until(timedelta(hours=2))
        """
        from pynamodb_tracker.features.waits import Waits  # noqa: PLC0415 - few cold starts need it

        with self._asking("let the next step wait for what was created in"):
            if self._journal.next_code == END:
                raise ValueError(f"{self._claim} leads to the end, and no step after it can wait")
            Waits.of_run(self._journal).limit(self._limit(time, "time"))

    def wait_for(self, response: SignalName[Any], *, until: datetime | timedelta | None = None) -> None:
        """Let the next step start when this signal is there, such as `Order.approved`, or at `until`. It sends nothing.

        A signal that is already there counts. The next step reads it as `ctx.task.approved`, which is None after the
        limit. Several calls wait for several signals, with one limit. A task of a group holds the turn while it waits.
        ValueError at the last step.

        Examples:
            >>> ctx.wait_for(Order.paid, until=timedelta(days=3))
        """
        from pynamodb_tracker.features.waits import Waits  # noqa: PLC0415 - few runs wait for signals

        journal, claim = self._journal, self._claim
        with self._asking("let the next step wait for a response in"):
            name = check_signal(type(self.task), response)
            if journal.next_code == END:
                raise ValueError(f"{claim} leads to the end, and no step after it can wait for {name}")
            limit = None if until is None else self._limit(until, "until")
            waits = Waits.of_run(journal)
            if limit is not None:
                waits.limit(limit)
            waits.names |= {name}

    def go_to(self, step: StepOfTask) -> None:
        """Let the success of this run lead to a later step, or to a branch, such as `Order.refund`. It sends nothing.

        The steps between are skipped: starting one raises a TaskAlreadySucceededError, until the task starts over.
        ValueError if the run already has another target, or the step is not a later one.

        Examples:
            >>> ctx.go_to(Order.refund)
        """
        claim, codes = self._claim, getattr(getattr(step, "_definition", None), "codes", None)
        if not isinstance(codes, Codes):
            raise TypeError(f"go_to takes a step, such as Order.refund, not {shown(step)}")
        own = claim.statements.codes
        if codes.use_case_id != own.use_case_id or codes.pending <= own.pending:
            raise ValueError(f"{claim} cannot go to {step!r}: write a later step of {type(self.task).__name__}")
        self._lead_to(codes.pending, codes.step)

    def end_task(self) -> None:
        """Let the success of this run end the task, and skip all later steps. It sends nothing.

        ValueError if the run has another target, or the next step waits for something.

        Examples:
            >>> ctx.end_task()
        """
        self._lead_to(END, "the end")

    def _lead_to(self, code: int, name: str) -> None:
        with self._asking("choose what comes after"):
            additions = self._journal.additions
            if additions.get("target", code) != code:
                raise ValueError(f"{self._claim} cannot lead to {name}: it has chosen another target; choose one")
            follow_ups, waits = additions.get("follow_ups"), additions.get("waits")
            if code == END and ((waits and (waits.names or waits.until)) or (follow_ups and follow_ups.child_list)):
                raise ValueError(f"{self._claim} cannot lead to the end: the next step is to wait, and there is none")
            additions["target"] = self._journal.next_code = code

    def transaction(self, *, succeed: bool = False) -> TransactWrite:
        """Return a PynamoDB TransactWrite whose writes are applied only while this run holds the task.

        It takes 99 actions, none on the task's row. With `succeed`, the follow-ups of `create` count as actions. It
        costs twice the write units of its parts:
        https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html

        LockLostError if the lock is lost. Otherwise PynamoDB's error is raised, also for your own condition. Its
        `cancellation_reasons` begin with the task's row. Then nothing was applied, unless a note on the error says so.

        Args:
            succeed: Include the success of the run and the assignments of the block so far. All of it is applied, or
                nothing. Later assignments raise AttributeError, and without a commit the attempt fails.

        Examples:
            >>> with ctx.transaction(succeed=True) as transaction:
            ...     transaction.update(Order.get_task("o-2"), [Order.tracking_no.set("T-1")])
        """
        from pynamodb_tracker.execution.transaction import TaskTransaction  # noqa: PLC0415 - few cold starts need it

        check_flags(succeed=succeed)
        with self._holding("open a transaction of"):
            journal, claim = self._journal, self._claim
        if succeed and journal.pending_success is None:
            journal.pending_success = transitions.PendingSuccess()
        pending = journal.pending_success if succeed else None
        return TaskTransaction(claim.statements.table, claim.task, partial(self._commit, pending), pending)

    def _commit(self, pending: transitions.PendingSuccess | None, actions: list[dict[str, Any]]) -> None:
        commit = partial(transitions.commit, self._journal, actions, theirs=actions)
        if pending is not None:
            commit = partial(transitions.commit_success, self._journal, pending, actions)
        with self._writing("commit a transaction of"):
            if pending is not None:
                choose_next(self._journal)
            persist(self._claim, commit, "a transaction")

    @contextmanager
    def _asking(self, operation: str) -> Iterator[None]:
        """Refuse a request to the success if that is recorded already.

        It sends nothing, unless a transaction with the success got no response. Then it first finds out the outcome.
        """
        with self._writing(operation):
            pending = self._journal.pending_success
            if pending is not None and pending.sent is not None:
                transitions.settle_unknown_writes(self._journal)
            yield

    def _limit(self, given: datetime | timedelta, name: str) -> datetime:
        """Return how long the next step waits. The same duration, given again, is the same time."""
        until = check_due_time(given, name)
        if until is None:
            raise TypeError(f"{name} takes an aware datetime, not None: without a limit, leave it out")
        if isinstance(until, timedelta):
            self._given_limits = {until: clock.now() + until, **self._given_limits}
            return self._given_limits[until]
        return until

    @contextmanager
    def _writing(self, operation: str) -> Iterator[None]:
        """Refuse an operation as `_holding` does, and let one wait for another."""
        self._check_process(operation)  # first: a thread of the parent may have held `writing` when it forked
        with self._journal.writing, self._holding(operation):
            yield


def choose_next(journal: transitions.Journal[Any]) -> None:
    """Choose the next step for a success. It may read the control item."""
    if journal.obeys_control:
        from pynamodb_tracker.control.watch import lead_to_required  # noqa: PLC0415 - few cold starts need it

        lead_to_required(journal)


def hold(ctx: ExecutionContext[Any], tries: int = TRIES) -> None:
    """Extend the lock if it has expired before the block begins, because another worker may run the task by now.

    It sends nothing while the lock lasts. LockLostError if the lock is lost. TaskNotStartableError if it has expired
    after so many tries, and then the attempt is to be released.
    """
    claim, journal = ctx._claim, ctx._journal  # noqa: SLF001 - no names among what users see
    while journal.lost is not None or claim.expire_time <= clock.now():
        if not tries:
            raise transitions.too_slow(claim, ctx._lock_for)  # noqa: SLF001 - as above
        ctx.extend_lock()
        tries -= 1
