"""A block's context, with its task, attempt and lock."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar
from uuid import UUID, uuid5

from pynamodb_tracker import clock, transitions
from pynamodb_tracker.dynamodb.retries import persist
from pynamodb_tracker.exceptions import LockLostError
from pynamodb_tracker.model import arguments, strict_json
from pynamodb_tracker.model.results import result_text
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.model.signals import SignalName, check_signal
from pynamodb_tracker.model.status import END, Codes, end_of

if TYPE_CHECKING:
    from pynamodb.transactions import TransactWrite

    from pynamodb_tracker.features.groups.queue import GroupOfRun
    from pynamodb_tracker.features.signals import Waits
    from pynamodb_tracker.model.repeat import Repeat

R = TypeVar("R")
T_co = TypeVar("T_co", bound=TaskRow, covariant=True)

_KEYS = "c35a0403-3bd7-4447-90b4-5ac3aa414434"
"""The namespace of all idempotency keys. Changing it would repeat effects under new keys."""

_LONGEST_PART = 64  # characters
TRIES = 3  # how often to extend a lock that expired before its block: these responses may be late, too


class StepOfTask(Protocol):
    name: str
    number: int


@arguments.named_as("ctx")
class BlockContext(Generic[T_co]):
    """The members of a context that send no requests."""

    invocation: Any = None
    """Lambda's context object, in a handler of `aws_lambda`."""

    _given_limits: Mapping[timedelta, datetime] = MappingProxyType({})
    """When the durations end that the block has given as limits for waiting."""

    def __init__(self, journal: transitions.Journal[T_co], lock_for: timedelta) -> None:
        self._journal = journal
        self._claim = journal.claim
        self._lock_for = lock_for

    @property
    def task(self) -> T_co:
        """The row. The success saves the block's assignments."""
        return self._claim.task

    @property
    def occurrence(self) -> datetime | None:
        """The rule's time for which the task runs, in the rule's time zone. None without a rule.

        It is the same in each attempt, so ids of other tasks can contain it. After missed occurrences, it is the latest
        one, unless the rule has missed="all". A run that `create_or_merge` requested has the requested time.
        """
        task = self._claim.task
        extra_time: datetime | None = task.extra_time
        if task.repeat is None or extra_time is None:
            return task.occurrence
        return extra_time.astimezone(task.repeat.zone)

    @property
    def round(self) -> str:
        """The task's current round, for senders of signals."""
        return self._claim.round

    @property
    def attempt(self) -> int:
        """The number of this attempt at the step, from 1. Attempts whose worker died count, too."""
        return self._claim.attempt

    @property
    def fencing_token(self) -> str:
        """24 hex digits that sort after the task's earlier claims, so other systems can refuse lower ones.

        Between tasks, or after a task was deleted, expired or restored, the order depends on the workers' clocks.
        """
        return self._claim.token

    @property
    def idempotency_key(self) -> str:
        """36 characters for a call to another system that must take effect once. All attempts have the same.

        A takeover, a `reopen` and a renamed step keep it. Another round has another key: the next occurrence, a run
        that `create_or_merge` requests while the task runs or later, a start from the end by `also_from`, and a
        recreated task. For several calls in one step, use `key`.
        """
        return self._key("")

    def key(self, name: str) -> str:
        """Return an idempotency key for one of several calls. Put values into the name that a merge may change.

        Examples:
            >>> charge_key, mail_key = ctx.key("charge"), ctx.key("mail")
        """
        arguments.check_text("name", name)
        if not name:
            raise ValueError(
                "key takes a name for the call, such as 'charge'. If there is only one, use idempotency_key"
            )
        return self._key(name)

    def _key(self, name: str) -> str:
        codes = self._claim.statements.codes
        parts = [codes.use_case_id, self.task.task_id, codes.pending, self._claim.round, name]
        return str(uuid5(UUID(_KEYS), strict_json.dumps(parts, separators=(",", ":"))))

    @property
    def outcome(self) -> Literal["succeeded", "failed", "ignored", "released"] | None:
        """How the run ended, once that is recorded. The task may already be due again."""
        return self._journal.outcome

    @property
    def lock_expire_time(self) -> datetime:
        """When the lock expires. Until then, no other worker takes the task."""
        return self._claim.expire_time

    @property
    def lock_lost(self) -> bool:
        """Whether this worker may have lost the task. This sends no request.

        It stays True once a request finds that the lock is lost. It is also True while the lock has expired by this
        clock, for example after the process was frozen, and in a process that was forked inside the block.
        """
        claim = self._claim
        has_expired = self.outcome is None and claim.expire_time <= clock.now()
        return self._journal.lost is not None or claim.is_foreign or has_expired

    def store_result(self, result: object) -> None:
        """Store a JSON value as the step's result, in the same write as the success. `step.result` reads it.

        It replaces the last run's result. Each later write of the row pays for it. Values above 262,144 bytes raise
        ValueNotStorableError, and if the row would exceed 400 KB, the task is given up at once. If a transaction
        records the success, call this before its commit.

        Examples:
            >>> ctx.store_result({"receipt": "r-1"})
        """
        with self._holding("store the result of"):
            self._journal.result = result_text(result, self.task.task_id)
            self._journal.expects_result = False

    def check_in(self, transaction: TransactWrite) -> None:
        """Let your own transaction succeed only if this run holds the task at the commit.

        This adds a check of the task's row as the first action, so the transaction cannot write that row. Raises
        LockLostError if the lock is known to be lost.

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
                f"check_in takes a TransactWrite of your own, not {transaction!r}. ctx.transaction() needs no check_in"
            )
        with self._holding("check the lock in a transaction of"):
            transitions.check_in(self._claim, transaction)

    def _check_process(self, operation: str) -> None:
        if self._claim.is_foreign:
            why = f"{self._claim.describe_foreign()}. Only the process that claimed a task holds it"
            raise self._refusal(operation, why)

    def _refusal(self, operation: str, why: str) -> LockLostError:
        task_id = self.task.task_id
        return LockLostError(f"cannot {operation} {self._claim.step} of {task_id!r}: {why}", task_id=task_id)

    @contextmanager
    def _holding(self, operation: str) -> Iterator[None]:
        """Refuse an operation if the block has ended or the lock is lost. Remember a loss."""
        self._check_process(operation)
        if self._journal.ended:
            pending = self._journal.pending_success
            why = "a transaction has recorded its success" if pending and pending.recorded else "the block has ended"
            raise self._refusal(operation, f"{why}, which released the lock")
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
    """One attempt at a step, for a task that this worker has locked."""

    @property
    def group(self) -> GroupOfRun:
        """The task's group: its `name`, and the `data` that its tasks share.

        `data` is a dictionary of at most 350,000 bytes of JSON. The success saves its changes. A task without a group
        raises AttributeError.
        """
        additions = self._journal.additions
        if additions.get("group") is None:
            if self.task.group is None:
                raise AttributeError(
                    f"{type(self.task).__name__} {self.task.task_id!r} lacks a group: it was created without group=",
                    name="group",
                    obj=self,
                )
            from pynamodb_tracker.features.groups.queue import GroupOfRun  # noqa: PLC0415 - few cold starts need it

            additions["group"] = GroupOfRun(self.task)
        group: GroupOfRun = additions["group"]
        return group

    def checkpoint(self, name: str, function: Callable[[], R]) -> R:
        """Call a function whose effect must not be repeated, and return its result. Later attempts do not call it.

        One request stores the result at once, for 1 write unit per started KB of the row. If the function raises, or
        the worker dies in it, the next attempt calls it again, so pass `ctx.key(name)` to the other system. The step's
        success removes the results.

        Args:
            name: A name of up to 64 characters. Each part of the step needs its own.
            function: Returns JSON of at most 1,024 bytes, and 8,192 for all parts of a task.

        Raises:
            GiveUp: The result cannot be stored, so the task becomes ignored.
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
        from pynamodb_tracker.features.checkpoints import Parts  # noqa: PLC0415 - few runs have parts

        if not 0 < len(arguments.check_text("name", name) or "") <= _LONGEST_PART:
            raise ValueError(f"checkpoint takes a name of 1 to {_LONGEST_PART} characters, such as 'charge'")
        arguments.check_key("part name", name)  # now, because an unstorable one would fail after the effect
        with self._asking("run a part of"):
            return Parts.of_run(self._journal).begin(name)

    def _store_part(self, name: str, result: object) -> str:
        with self._writing("store a part of"):
            text: str = self._journal.additions["checkpoints"].store(name, result)
            return text

    def _end_part(self, name: str) -> None:
        self._journal.additions["checkpoints"].end(name)

    def extend_lock(self, lock_for: timedelta | None = None) -> None:
        """Extend the lock to `lock_for` from now, by default as long as at the start. It never gets shorter.

        One request of 1 write unit per started KB of the row. Raises LockLostError if another worker has the task.

        Examples:
            >>> ctx.extend_lock(timedelta(minutes=10))
        """
        duration = self._lock_for if lock_for is None else arguments.check_duration("lock_for", lock_for)
        with self._holding("extend the lock of"):
            persist(self._claim, partial(transitions.extend, self._claim, duration), "a lock extension")

    def save(self) -> None:
        """Save the block's assignments so far, even if it fails later. Without changes, this sends nothing.

        Raises LockLostError if another worker has the task, and ValueNotStorableError if a value cannot be stored.

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
        """Create a task in the same table, in the same write as this run's success.

        A task that an earlier attempt created counts as created. Any other task with that id makes the attempt fail
        with TaskAlreadyExistsError, so derive the id from this task's: f"{ctx.task.task_id}/invoice". This costs 2
        write units per started KB of the new row, 1 for its index entry, and doubles the write units of the success.
        Beyond 98 tasks, the first ones are created before the success, and stay even if it is never recorded.

        Args:
            model: The new task's use case.
            task_id: Its id.
            wait: This task's next step waits until all such tasks, at most 97, have succeeded or were deleted. If one
                is ignored, it waits for a person.
            due_time: As in `Task.create`.
            group: As in `Task.create`. The task enters the group with the success. At most 31 tasks.
            repeat: As in `Task.create`, for one request.
            trace: As in `Task.create`, by default this task's.
            wait_for: As in `Task.create`: a signal for the new task to wait for.
            until: As in `Task.create`.
            urgent: As in `Task.create`. An urgent task does not pass it on.
            **attributes: The new task's attributes.

        Raises:
            ValueError: The model is in another table, an id is used twice, or `wait` is given at the last step or for
                too many tasks.

        Examples:
            >>> ctx.create(Order, f"{ctx.task.task_id}-gift", wait=True)
        """
        arguments.check_flags(wait=wait)
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
        """Let the next step start at that time, or so long from now, even if it still waits. It sends nothing.

        This limits `create(..., wait=True)` and `wait_for`. `ctx.task.blockers` then says how many tasks have not
        succeeded. Raises ValueError at the last step.

        Examples:
            >>> ctx.create(Order, f"{ctx.task.task_id}-gift", wait=True)
            >>> ctx.wait_until(timedelta(hours=2))
        """
        with self._asking("let the next step wait for tasks of"):
            self._waits_of_next_step().limit(self._limit(time, "time"))

    def wait_for(self, response: SignalName[Any], *, until: datetime | timedelta | None = None) -> None:
        """Let the next step start when a signal arrives, such as `Order.approved`, or at `until`. It sends nothing.

        The next step reads it as `ctx.task.approved`, which is None if `until` came first. Several calls wait for
        several signals, with one limit. Raises ValueError at the last step.

        Examples:
            >>> ctx.wait_for(Order.paid, until=timedelta(days=3))
        """
        with self._asking("let the next step wait for a response in"):
            name, waits = check_signal(type(self.task), response), self._waits_of_next_step()
            if until is not None:
                waits.limit(self._limit(until, "until"))
            waits.names |= {name}

    def _waits_of_next_step(self) -> Waits:
        from pynamodb_tracker.features.signals import Waits  # noqa: PLC0415 - few runs wait

        if end_of(self._journal.next_code):
            raise ValueError(f"{self._claim} leads to the end, so no next step could wait")
        return Waits.of_run(self._journal)

    def go_to(self, step: StepOfTask) -> None:
        """Let this run's success lead to a later step or a branch, such as `Order.refund`. It sends nothing.

        The steps in between are skipped. Raises ValueError for an earlier step, or a second target.

        Examples:
            >>> ctx.go_to(Order.refund)
        """
        claim, codes = self._claim, getattr(getattr(step, "_definition", None), "codes", None)
        if not isinstance(codes, Codes):
            raise TypeError(f"go_to takes a step, such as Order.refund, not {arguments.shown(step)}")
        own = claim.statements.codes
        if codes.use_case_id != own.use_case_id or codes.pending <= own.pending:
            raise ValueError(f"{claim} cannot go to {step!r}: write a later step of {type(self.task).__name__}")
        self._lead_to(codes.pending, codes.step)

    def end_task(self) -> None:
        """Let this run's success end the task, without the later steps. It sends nothing.

        Raises ValueError if the run has another target, or the next step waits for something.

        Examples:
            >>> ctx.end_task()
        """
        self._lead_to(END, "the end")

    def _lead_to(self, code: int, name: str) -> None:
        with self._asking("choose the step after"):
            additions = self._journal.additions
            if additions.get("target", code) != code:
                raise ValueError(f"{self._claim} cannot lead to {name}: it has chosen another target before")
            follow_ups, waits = additions.get("follow_ups"), additions.get("waits")
            if end_of(code) and ((waits and (waits.names or waits.until)) or (follow_ups and follow_ups.child_list)):
                raise ValueError(
                    f"{self._claim} cannot lead to the end, because the next step is to wait for something"
                )
            additions["target"] = self._journal.next_code = code

    def transaction(self, *, succeed: bool = False) -> TransactWrite:
        """Return a PynamoDB TransactWrite that is applied only while this run holds the task.

        It takes 99 actions, none on the task's row, and costs twice their write units:
        https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html

        Raises LockLostError if the lock is lost, and PynamoDB's error if your own condition fails. The first of its
        `cancellation_reasons` is about the task's row.

        Args:
            succeed: Include the success, with the block's assignments so far. Later assignments raise AttributeError,
                and without a commit the attempt fails. Tasks from `create` count as actions.

        Examples:
            >>> with ctx.transaction(succeed=True) as transaction:
            ...     transaction.update(Order.get_task("o-2"), [Order.tracking_no.set("T-1")])
        """
        from pynamodb_tracker.execution.transaction import TaskTransaction  # noqa: PLC0415 - few cold starts need it

        arguments.check_flags(succeed=succeed)
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
        """Refuse to add something to a recorded success. After a lost response, first find out whether it is."""
        with self._writing(operation):
            pending = self._journal.pending_success
            if pending is not None and pending.sent is not None:
                transitions.settle_unknown_writes(self._journal)
            yield

    def _limit(self, given: datetime | timedelta, name: str) -> datetime:
        """Return the limit of a wait. The same duration gives the same time again."""
        until = arguments.check_due_time(given, name)
        if until is None:
            raise TypeError(f"{name} takes an aware datetime, not None: leave it out to wait without a limit")
        if isinstance(until, timedelta):
            self._given_limits = {until: clock.now() + until, **self._given_limits}
            return self._given_limits[until]
        return until

    @contextmanager
    def _writing(self, operation: str) -> Iterator[None]:
        """Do as `_holding` does, for one operation at a time."""
        self._check_process(operation)  # first, because a thread of the parent may have held `writing` at the fork
        with self._journal.writing, self._holding(operation):
            yield


def choose_next(journal: transitions.Journal[Any]) -> None:
    """Choose the step after a success. This may read the control item."""
    if journal.obeys_control:
        from pynamodb_tracker.control.watch import lead_to_required  # noqa: PLC0415 - few cold starts need it

        lead_to_required(journal)


def hold(ctx: ExecutionContext[Any], tries: int = TRIES) -> None:
    """Extend a lock that has expired before the block begins, because another worker may already run the task.

    Raises LockLostError if it is lost, or TaskNotStartableError if it keeps expiring.
    """
    claim, journal = ctx._claim, ctx._journal  # noqa: SLF001 - hidden from users
    while journal.lost is not None or claim.expire_time <= clock.now():
        if not tries:
            raise transitions.too_slow(claim, ctx._lock_for)  # noqa: SLF001 - as above
        ctx.extend_lock()
        tries -= 1
