"""A state: a status of a step, and the tasks that are in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pynamodb_tracker import clock
from pynamodb_tracker import query as index
from pynamodb_tracker.aio.lazy import in_thread, read_ahead
from pynamodb_tracker.clock import stamp
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.model.row_state import readable_value
from pynamodb_tracker.query import Count
from pynamodb_tracker.step.sync_state import Page, SyncState, window

if TYPE_CHECKING:
    from pynamodb_tracker.step.glance import Glance

T = TypeVar("T", bound=TaskRow)


class State(SyncState[T]):
    """A status of a step of a use case; equal to another by use case and code, so `ship pending` is one state.

    Tasks are found by the index, which is updated a moment after the table: a task that has just changed may be
    missing, but every task that is returned is in the state. Methods that begin with `a` are awaited: they do the same
    as those without it, and send their requests in threads.
    """

    __slots__ = ()

    def aquery(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        latest_first: bool = False,
        limit: int | None = None,
        with_data: bool = True,
    ) -> AsyncIterator[T]:
        """Return the tasks of `query`, for `async for`; about 100 of them are read at a time."""
        return read_ahead(
            self.query(since=since, until=until, latest_first=latest_first, limit=limit, with_data=with_data)
        )

    async def apage(
        self,
        *,
        limit: int = 50,
        cursor: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        latest_first: bool = False,
        with_data: bool = True,
    ) -> Page[T]:
        """Return what `page` returns."""
        page = partial(self.page, limit=limit, cursor=cursor, since=since, until=until)
        return await in_thread(partial(page, latest_first=latest_first, with_data=with_data))

    async def aglance(
        self,
        *,
        limit: int = 50,
        cursor: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        latest_first: bool = False,
    ) -> Glance:
        """Return what `glance` returns."""
        glance = partial(self.glance, limit=limit, cursor=cursor, since=since, until=until)
        return await in_thread(partial(glance, latest_first=latest_first))

    async def acount(
        self, *, since: datetime | None = None, until: datetime | None = None, most: int | None = None
    ) -> int:
        """Return what `count` returns."""
        return await in_thread(partial(self.count, since=since, until=until, most=most))


def due_until(state: State[T], latest: datetime) -> Iterator[T]:
    """Return the tasks of a state whose due time is not after `latest`, in order, without data."""
    return index.StateScan(state.model, state.code, index.Window(), latest=latest, with_data=False).rows()


def counted(model: type[T]) -> dict[State[T], Count]:
    """Return the numbers of tasks in every state that the index has, and in codes that no step declares.

    A task that succeeded before its use case got `index_succeeded=False` is in the index, and not counted.
    """
    found, states = index.counts(model), model._states  # noqa: SLF001 - users have no use for them by code
    unknown: dict[int, State[T]] = {code: State(model, "", None, code) for code in found.keys() - states.keys()}
    known = {code: state for code, state in {**states, **unknown}.items() if model.tracker.is_indexed(code)}
    return {state: found.get(code, Count()) for code, state in sorted(known.items())}


def waiting_in(state: State[T], since: datetime | None, until: datetime | None) -> Iterator[T]:
    """Yield the tasks of a pending state that wait for others, the latest due time first, without data."""
    scan = index.StateScan(state.model, state.code, window(since, until), latest_first=True, with_data=False)
    now = stamp(clock.now())
    for row in scan.rows():
        if row._row_state.stored["due_time"]["S"] <= now:
            return
        if readable_value(row, "waits"):
            yield row


def given_up(
    model: type[T], steps: Collection[str], since: datetime | None, until: datetime | None, *, most: int
) -> tuple[list[T], bool]:
    """Return the tasks that gave up an occurrence at one of these steps, by their names, and whether these are all.

    They are pending at the first step. Up to `most` tasks that are due later are looked at: some 40 for a read unit.
    """
    from pynamodb_tracker.query.given_up import given_up as search  # noqa: PLC0415 - for cold starts

    return search(model, steps, window(since, until), most)


def all_tasks(model: type[T]) -> Iterator[T]:
    """Return every task of a use case once, strongly consistent; reads the whole table."""
    return index.tasks(model)
