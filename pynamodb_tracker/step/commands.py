"""The commands of people on the tasks of a step: reopen, ignore, unlock, each on one task or on many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import repeat
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from pynamodb_tracker import arguments, clock, transitions
from pynamodb_tracker.aio.lazy import awaited
from pynamodb_tracker.model.row import TaskRow

if TYPE_CHECKING:
    from pynamodb_tracker.batch.batch import Report
    from pynamodb_tracker.control.item import Pause
    from pynamodb_tracker.step.definition import StepDefinition

T = TypeVar("T", bound=TaskRow)


@arguments.named_as("BoundStep")
class StepCommands(Generic[T]):
    """What a person does with the tasks of a step, each refused while a worker holds the task; and with the step."""

    def __init__(self, definition: StepDefinition[T]) -> None:
        self._definition = definition
        self.model = definition.model
        """The class of the use case."""

    def reopen(
        self, task_id: str, *, by: str | None = None, due_time: datetime | None = None, clear_checkpoints: bool = False
    ) -> T:
        """Give a failed or ignored task a fresh set of attempts, and return it; a pending one stays as it is.

        It is due now, or at `due_time`, unless it waits, repeats or is in a group. Its next start may have another
        payload, if it was started with `must_match`. With `clear_checkpoints`, its next run repeats the parts whose
        results `ctx.checkpoint` has stored. With `by`, such as a person's name, an entry in its `errors` says who did
        it. A task in another state raises TaskLockedError, TaskAlreadySucceededError or TaskNotReadyError, a missing
        one TaskNotFoundError.

        Examples:
            >>> Order.ship.reopen("o-2", by="ada")
        """
        from pynamodb_tracker.transitions.reopening import reopen  # noqa: PLC0415 - few cold starts need it

        arguments.check_flags(clear_checkpoints=clear_checkpoints)
        of, due_time = self._definition.statements, arguments.check_time("due_time", due_time)
        task_id, by = arguments.check_task_id(task_id), arguments.check_name("by", by)
        return reopen(of, task_id, by, due_time, clear_checkpoints=clear_checkpoints)

    @arguments.written_as('{0.model.__name__}.{0}.ignore("o-1", reason="no such street")')
    def ignore(
        self,
        task_id: str,
        *,
        reason: str,
        by: str | None = None,
        even_running: bool = False,
        even_in_group: bool = False,
    ) -> T:
        """Make a pending, failed or abandoned task ignored, with the reason in its `errors`, and return it.

        `by`, such as a person's name, is kept with the reason; by default, that is `host:pid` of this process.
        An ignored task stays as it is. A task in another state raises TaskLockedError, TaskAlreadySucceededError or
        TaskNotReadyError, a missing one TaskNotFoundError. With `even_running`, a task that a worker holds is ignored
        as well: its block is not stopped, but its `ctx.lock_lost` becomes true at the next heartbeat, and its writes
        and its end raise LockLostError, with the reason. In a group, that takes `even_in_group` as well, because the
        next task starts while the block may still run. Two requests, and 3 write units for a row of up to 1 KB.

        Examples:
            >>> Order.ship.ignore("o-2", reason="cancelled by phone", by="ada")
        """
        reason, by = arguments.check_reason(reason), arguments.check_name("by", by)
        task_id = arguments.check_task_id(task_id)
        arguments.check_flags(even_running=even_running, even_in_group=even_in_group)
        if even_in_group and not even_running:
            raise ValueError("even_in_group=True is about running tasks: give even_running=True as well")
        of = self._definition.statements
        return transitions.ignore(of, task_id, reason, by, even_running=even_running, even_in_group=even_in_group)

    def reopen_many(
        self,
        task_ids: Iterable[str],
        *,
        by: str | None = None,
        due_times: Iterable[datetime] | None = None,
        threads: int = 25,
        clear_checkpoints: bool = False,
    ) -> Report:
        """Reopen these tasks, each once and on its own, and return what became of them.

        The report lists tasks that are pending now, or were already, as succeeded. Those that `reopen` would refuse, or
        whose request failed, are refused, with the error that it would raise; none of them stops the others. `task_ids`
        is read lazily, so it can be a generator of any length. The threads share requests, each of which reopens up to
        25 tasks. After Ctrl-C no further task is changed, and KeyboardInterrupt propagates when the requests under way
        have ended. `due_times` has a time for each task, as `due_time` of `reopen`; it may be endless. The report says
        how many are due `due_now` instead.
        `clear_checkpoints` is as in `reopen`.

        Examples:
            >>> report = Order.ship.reopen_many(order.task_id for order in Order.ship.ignored.query())
        """
        by, ids = arguments.check_name("by", by), arguments.check_task_ids("reopen_many", task_ids)
        arguments.check_threads(threads)
        arguments.check_flags(clear_checkpoints=clear_checkpoints)
        from pynamodb_tracker.batch.bulk import each_once, report_of_each  # noqa: PLC0415 - for cold starts
        from pynamodb_tracker.transitions.reopening import reopen  # noqa: PLC0415 - as above

        def reopen_one(task_id: str, due: datetime | None) -> Literal["succeeded"]:
            due = arguments.check_time("due_times", due)
            row = reopen(self._definition.statements, task_id, by, due, clear_checkpoints=clear_checkpoints)
            if due is not None and row.due_time <= clock.now() < due:
                at_once.append(task_id)
            return "succeeded"

        at_once: list[str] = []
        given = repeat(None) if due_times is None else _one_for_each(due_times)
        report = report_of_each(zip(each_once(ids), given, strict=False), reopen_one, threads)
        report.due_now = len(at_once)
        return report

    @arguments.written_as('{0.model.__name__}.{0}.ignore_many(["o-1"], reason="no such street")')
    def ignore_many(self, task_ids: Iterable[str], *, reason: str, by: str | None = None, threads: int = 25) -> Report:
        """Ignore these tasks, each once and on its own, and return what became of them.

        The report lists tasks that are ignored now, or were already, as ignored. Those that `ignore` would refuse, or
        whose request failed, are refused, with the error that it would raise; none of them stops the others. `task_ids`
        is read lazily, 100 at a time, whose rows are read together; the threads share requests, and Ctrl-C ends it, as
        in `reopen_many`. The step's `when_ignored` is called on these threads.

        Examples:
            >>> report = Order.ship.ignore_many(["o-2"], reason="cancelled by phone")
        """
        reason, by = arguments.check_reason(reason), arguments.check_name("by", by)
        ids = arguments.check_task_ids("ignore_many", task_ids)
        arguments.check_threads(threads)
        from pynamodb_tracker.batch.bulk import each_once, report_of_each, with_rows  # noqa: PLC0415 - for cold starts

        def ignore(task_id: str, found: T | None) -> Literal["ignored"]:
            transitions.ignore(self._definition.statements, task_id, reason, by, found=found)
            return "ignored"

        return report_of_each(with_rows(self.model, each_once(ids)), ignore, threads)

    @arguments.written_as('{0.model.__name__}.{0}.unlock("o-1", reason="the host is gone")')
    def unlock(self, task_id: str, *, reason: str, worker: str | None = None, by: str | None = None) -> T:
        """Unlock a task whose worker is known to be dead, without waiting for its lock to expire, and return it.

        It is pending at once. The attempt counts: after the last one, the next start makes the task ignored. `worker`,
        as it stands in the row, makes sure that no other worker's task is unlocked: TaskLockedError. If the worker
        lives after all, its writes raise LockLostError from then on; effects outside of the table may happen twice. The
        reason is kept in `errors`, and `by` as in `ignore`. A pending or failed task stays as it is; otherwise raises
        TaskNotFoundError, TaskAlreadySucceededError, TaskIgnoredError or TaskNotReadyError.

        Examples:
            >>> dead = Order.get_task("o-3")
            >>> Order.confirm_payment.unlock("o-3", reason="the host is gone", worker=dead.worker)
        """
        reason, by = arguments.check_reason(reason), arguments.check_name("by", by)
        worker = arguments.check_name("worker", worker)
        return transitions.revoke(self._definition.statements, arguments.check_task_id(task_id), reason, worker, by)

    @arguments.written_as('{0.model.__name__}.{0}.pause(until=None, reason="no carrier")')
    def pause(self, *, until: datetime | timedelta | None, reason: str, by: str | None = None) -> Pause:
        """Pause this step for everybody, and return the pause that is in force: the later `until` wins.

        Within 5 seconds, workers, `run_all`, `retry_handler` and `handles` start no more of its tasks; running ones go
        on, and `start` and `run` of one task do not look. `until=None` lasts until `resume`. A handler acknowledges a
        message of a standard queue, so let a worker or a schedule run this step as well. Needs
        `UseCase(..., pausable=True)`; TrackerError otherwise. One request, of one write unit; two if the pause that is
        there lasts longer.

        Examples:
            >>> Order.ship.pause(until=timedelta(hours=1), reason="no carrier", by="ada")
        """
        from pynamodb_tracker.control import item  # noqa: PLC0415 - few programs pause a step

        reason, by = arguments.check_reason(reason), arguments.check_name("by", by)
        given, now = arguments.check_due_time(until, "until"), clock.now()
        end = now + given if isinstance(given, timedelta) else given
        if end is not None and end <= now:
            raise ValueError(f"until must be in the future, not {until!r}")
        return item.pause(self.model, self._definition.codes.pending, end, reason, by)

    def resume(self, *, by: str | None = None) -> None:
        """End a pause of this step, if there is one: its tasks are started again within 5 seconds. One request.

        Examples:
            >>> Order.ship.resume(by="ada")
        """
        from pynamodb_tracker.control import item  # noqa: PLC0415 - as above

        item.resume(self.model, self._definition.codes.pending, arguments.check_name("by", by))

    apause = awaited(pause)
    aresume = awaited(resume)
    areopen = awaited(reopen)
    aignore = awaited(ignore)
    aunlock = awaited(unlock)
    areopen_many = awaited(reopen_many)
    """`task_ids` is iterated over in a thread. Once this is cancelled, no further task is changed.

    CancelledError is raised when the requests under way have ended.
    """
    aignore_many = awaited(ignore_many)
    """As `areopen_many`."""


def _one_for_each(due_times: Iterable[datetime]) -> Iterator[datetime | None]:
    """Yield the times; ValueError if another one is needed, so that no task is left out."""
    yield from due_times
    raise ValueError("due_times has fewer times than task_ids has ids: give each task one; they may be endless")
