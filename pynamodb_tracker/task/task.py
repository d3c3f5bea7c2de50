"""A task: the model that users derive their table and their use cases from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from pynamodb_tracker.aio.lazy import in_thread, in_thread_until_cancelled
from pynamodb_tracker.step import State
from pynamodb_tracker.task.metaclass import TaskMeta
from pynamodb_tracker.task.sync_task import SyncTask

if TYPE_CHECKING:
    from pynamodb_tracker.batch.batch import Report
    from pynamodb_tracker.model.repeat import Repeat
    from pynamodb_tracker.transitions.merges import Merged


class Task(SyncTask, metaclass=TaskMeta):
    """The model of all tasks: derive a class with a Meta from it, which is the table, and the use cases from that.

    An instance holds what was read; only a run that holds the lock, and the methods of this class, change the row.
    Methods that begin with `a` are awaited: they do the same as those without it, and send their requests in threads.
    """

    @classmethod
    async def acreate(
        cls,
        task_id: str,
        *,
        due_time: datetime | timedelta | None = None,
        state: State[Any] | None = None,
        group: str | None = None,
        repeat: Repeat | None = None,
        trace: Mapping[str, str] | None = None,
        **attributes: object,
    ) -> Self:
        """Create a task, as `create` does, and return it."""
        create = partial(cls.create, task_id, due_time=due_time, state=state, group=group)
        return await in_thread(partial(create, repeat=repeat, trace=trace, **attributes))

    @classmethod
    async def acreate_or_merge(
        cls,
        task_id: str,
        *,
        merge: Callable[[Self, Mapping[str, Any]], object] | None = None,
        due_time: datetime | timedelta | None = None,
        later: bool = False,
        repeat: Repeat | None = None,
        trace: Mapping[str, str] | None = None,
        **attributes: object,
    ) -> Merged[Self]:
        """Create a task, or merge a request into the existing one, as `create_or_merge` does.

        `merge` is no async function; it is called in a thread.
        """
        create = partial(cls.create_or_merge, task_id, merge=merge, due_time=due_time, later=later)
        return await in_thread(partial(create, repeat=repeat, trace=trace, **attributes))

    @classmethod
    async def acreate_many(cls, tasks: Iterable[str | Mapping[str, Any]], *, threads: int = 1) -> Report:
        """Create many tasks, as `create_many` does; `tasks` is iterated over in a thread.

        If this is cancelled, no further task is created, and CancelledError is raised once the requests have ended.
        """
        return await in_thread_until_cancelled(partial(cls.create_many, tasks, threads=threads))

    @classmethod
    async def aget_task(cls, task_id: str, *, with_data: bool = True) -> Self:
        """Return the task, as `get_task` does."""
        return await in_thread(partial(cls.get_task, task_id, with_data=with_data))

    @classmethod
    async def aget_many(cls, task_ids: Iterable[str]) -> list[Self]:
        """Return these tasks, as `get_many` does."""
        return await in_thread(partial(cls.get_many, task_ids))

    @classmethod
    async def acounts(cls) -> dict[State[Self], int]:
        """Return how many tasks there are in every state, as `counts` does; it reads the whole index."""
        return await in_thread(cls.counts)

    @classmethod
    async def adelete_task(cls, task_id: str) -> None:
        """Delete a task that is not in progress, as `delete_task` does."""
        await in_thread(partial(cls.delete_task, task_id))

    @classmethod
    async def adelete_use_case(cls, *, threads: int = 1) -> Report:
        """Delete every task of this use case that is not in progress, as `delete_use_case` does.

        If this is cancelled, no further task is deleted, and CancelledError is raised once the requests have ended.
        """
        return await in_thread_until_cancelled(partial(cls.delete_use_case, threads=threads))
