"""Commands for people: reopen, ignore and unlock tasks of a step, and pause the step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import repeat
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from pynamodb_tracker import clock, transitions
from pynamodb_tracker.aio.lazy import awaited
from pynamodb_tracker.model import arguments
from pynamodb_tracker.model.row import TaskRow

if TYPE_CHECKING:
    from pynamodb_tracker.control.item import Pause
    from pynamodb_tracker.step.definition import StepDefinition
    from pynamodb_tracker.work.outcomes import Report

T = TypeVar("T", bound=TaskRow)


@arguments.named_as("BoundStep")
class StepCommands(Generic[T]):
    """Commands on a step and its tasks. Most are refused while a worker holds the task."""

    def __init__(self, definition: StepDefinition[T]) -> None:
        self._definition = definition
        self.model = definition.model
        """The class of the use case."""

    def reopen(
        self,
        task_id: str,
        *,
        by: str | None = None,
        due_time: datetime | None = None,
        clear_checkpoints: bool = False,
        urgent: bool = False,
    ) -> T:
        """Give a failed or ignored task a fresh set of attempts, and return it. A pending one can only become urgent.

        Args:
            task_id: The task id.
            by: Who does it, for the task's `errors`.
            due_time: When it is due, by default now, unless it repeats, or waits for others or its turn.
            clear_checkpoints: Repeat the parts that `ctx.checkpoint` has stored.
            urgent: Make it urgent, as in `create`.

        Raises:
            TaskNotStartableError: One of TaskNotFoundError, TaskLockedError, TaskAlreadySucceededError and
                TaskNotReadyError.

        Examples:
            >>> Order.ship.reopen("o-2", by="ada")
        """
        arguments.check_flags(clear_checkpoints=clear_checkpoints)
        self.model.tracker.check_urgent(urgent)
        due_time = arguments.check_time("due_time", due_time)
        return self._definition.reopen(task_id, by, due_time, clear_checkpoints=clear_checkpoints, urgent=urgent)

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
        """Make a pending, failed or abandoned task ignored, and return it. An ignored task does not change.

        This takes two requests, and 3 write units for a row of up to 1 KB.

        Args:
            task_id: The task id.
            reason: Why, for its `errors`.
            by: Who does it, such as a person's name, by default this process's worker name.
            even_running: Also ignore a task that a worker holds. Its block is not stopped, but its later writes and its
                end raise LockLostError with the reason.
            even_in_group: Also needed for a running task of a group, where the next task then starts.

        Raises:
            TaskNotStartableError: One of TaskNotFoundError, TaskLockedError, TaskAlreadySucceededError and
                TaskNotReadyError.

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
        urgent: bool = False,
    ) -> Report:
        """Reopen these tasks one by one, and return a report. Tasks of a group keep their order.

        Tasks that are pending now count as succeeded. Refused ones have their error, and do not stop the others. After
        Ctrl-C, no more tasks change, and KeyboardInterrupt propagates when the running requests have ended.

        Args:
            task_ids: The ids, read lazily.
            by: As in `reopen`.
            due_times: Each task's `due_time`, which may be endless. The report counts tasks that are due at once as
                `due_now`.
            threads: They share requests, each of which reopens up to 25 tasks.
            clear_checkpoints: As in `reopen`.
            urgent: As in `reopen`.

        Examples:
            >>> report = Order.ship.reopen_many(order.task_id for order in Order.ship.ignored.query())
        """
        by, ids = arguments.check_name("by", by), arguments.check_task_ids("reopen_many", task_ids)
        arguments.check_threads(threads)
        arguments.check_flags(clear_checkpoints=clear_checkpoints)
        self.model.tracker.check_urgent(urgent)
        options: dict[str, bool] = {"clear_checkpoints": clear_checkpoints, "urgent": urgent}
        from pynamodb_tracker.work.bulk import by_number, each_once, report_of_each  # noqa: PLC0415 - for cold starts

        def reopen_one(task_id: str, given: tuple[datetime | None, T | None]) -> Literal["succeeded"] | None:
            due, found = given
            due = arguments.check_time("due_times", due)
            row = of.reopen(task_id, by, due, found=found, enters=found is not None, **options)
            if row.status != of.codes.pending:
                ended.append((row, due))
                return None
            if due is not None and row.due_time <= clock.now() < due:
                at_once.append(task_id)
            return "succeeded"

        of, at_once = self._definition, list[str]()
        ended = list[tuple[T, datetime | None]]()  # these have to enter their groups again, in order
        given = repeat(None) if due_times is None else _one_for_each(due_times)
        tasks = ((task_id, (due, None)) for task_id, due in zip(each_once(ids), given, strict=False))
        report = report_of_each(tasks, reopen_one, threads)
        members = ((row.task_id, (due, row)) for row, due in by_number(ended))
        entered = report_of_each(members, reopen_one, threads, lambda member: member[1].group)
        report.succeeded += entered.succeeded
        report.refused |= entered.refused
        report.due_now = len(at_once)
        return report

    @arguments.written_as('{0.model.__name__}.{0}.ignore_many(["o-1"], reason="no such street")')
    def ignore_many(self, task_ids: Iterable[str], *, reason: str, by: str | None = None, threads: int = 25) -> Report:
        """Ignore these tasks one by one, and return a report, as `reopen_many` does. Its threads call `when_ignored`.

        Args:
            task_ids: The ids, read lazily, 100 rows at a time.
            reason: As in `ignore`.
            by: As in `ignore`.
            threads: They share requests.

        Examples:
            >>> report = Order.ship.ignore_many(["o-2"], reason="cancelled by phone")
        """
        reason, by = arguments.check_reason(reason), arguments.check_name("by", by)
        ids = arguments.check_task_ids("ignore_many", task_ids)
        arguments.check_threads(threads)
        from pynamodb_tracker.work.bulk import each_once, report_of_each, with_rows  # noqa: PLC0415 - for cold starts

        def ignore(task_id: str, found: T | None) -> Literal["ignored"]:
            transitions.ignore(self._definition.statements, task_id, reason, by, found=found)
            return "ignored"

        return report_of_each(with_rows(self.model, each_once(ids)), ignore, threads)

    @arguments.written_as('{0.model.__name__}.{0}.unlock("o-1", reason="the host is gone")')
    def unlock(
        self,
        task_id: str,
        *,
        reason: str,
        fencing_token: str | None = None,
        worker: str | None = None,
        by: str | None = None,
    ) -> T:
        """Unlock a task after its worker has died, and return it. A pending or failed task does not change.

        It becomes pending, and the attempt counts. If the worker is still alive, its later writes raise LockLostError,
        but effects outside of the table may happen twice.

        Args:
            task_id: The task id.
            reason: Why, for its `errors`.
            fencing_token: Unlock only this claim: the run's `ctx.fencing_token`, or `task.lock` as you read it.
            worker: Unlock only a claim of this process: `task.worker` as you read it. Without this and `fencing_token`,
                the lock must have expired.
            by: As in `ignore`.

        Raises:
            TaskLockedError: Another claim or worker holds the task, or its lock is valid and neither was named.
            TaskNotStartableError: One of TaskNotFoundError, TaskAlreadySucceededError, TaskIgnoredError and
                TaskNotReadyError.

        Examples:
            >>> dead = Order.get_task("o-3")
            >>> Order.confirm_payment.unlock("o-3", reason="the host is gone", fencing_token=dead.lock)
        """
        reason, by = arguments.check_reason(reason), arguments.check_name("by", by)
        worker = arguments.check_name("worker", worker)
        token = arguments.check_name("fencing_token", fencing_token)
        task_id, statements = arguments.check_task_id(task_id), self._definition.statements
        return transitions.unlock(statements, task_id, reason, lock=token, worker=worker, by=by)

    @arguments.written_as('{0.model.__name__}.{0}.pause(until=None, reason="no carrier")')
    def pause(self, *, until: datetime | timedelta | None, reason: str, by: str | None = None) -> Pause:
        """Pause this step for everybody, and return the current pause: the later `until` wins.

        Within 5 seconds, workers, `run_all` and `retry_handler` start no more of its tasks. With
        `UseCase(..., pausable=True)`, `handles` does not, either: it acknowledges a message of a standard queue, so let
        a worker or a schedule run the task later. Running tasks continue, and `start` and `run` ignore the pause.

        Args:
            until: When it ends, or how long from now. None means until `resume`.
            reason: Why.
            by: Who does it.

        Raises:
            TrackerError: The use case has `pausable=False`.

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
        """End a pause of this step, if there is one. Its tasks start again within 5 seconds.

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
    """A thread reads `task_ids`. Once cancelled, no more tasks change. CancelledError follows the last request."""
    aignore_many = awaited(ignore_many)


def _one_for_each(due_times: Iterable[datetime]) -> Iterator[datetime | None]:
    """Yield the times. Raise ValueError if there are too few, so that no task is left out."""
    yield from due_times
    raise ValueError("due_times has fewer times than task_ids has ids: give each task one")
