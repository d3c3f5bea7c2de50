"""A state: a status at a step, with its tasks."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Protocol, overload

from pynamodb_tracker import clock
from pynamodb_tracker.aio.lazy import ahead, awaited
from pynamodb_tracker.clock import stamp
from pynamodb_tracker.dynamodb.connection import Item
from pynamodb_tracker.model.arguments import check_flags, check_limit, check_time
from pynamodb_tracker.model.row import T, TaskRow
from pynamodb_tracker.model.status import Status, end_of
from pynamodb_tracker.query import due, full_scan
from pynamodb_tracker.query.state_scan import StateScan, Window, position

if TYPE_CHECKING:
    from pynamodb_tracker.model.cancelled import CancelRecord
    from pynamodb_tracker.step.pages import IndexPage, TaskPage


class State(Generic[T]):
    """A status at a step of a use case. States with the same use case and code are equal.

    The index is a moment behind the table: a task that has just changed may be missing, but every returned task is in
    the state. Methods that begin with `a` are awaited.

    Examples:
        >>> assert Order.get_task("o-2").state == Order.ship.pending
    """

    __slots__ = ("code", "model", "status", "step", "use_case_id")

    def __init__(
        self, model: type[T], step: str, status: Status | None, code: int, use_case_id: str | None = None
    ) -> None:
        self.model = model
        """The use case's class."""
        self.step = step
        """The step's name."""
        self.status = status
        """The status, or None for cancelled tasks and unknown codes."""
        self.code = code
        """The stored integer."""
        self.use_case_id = model.tracker.use_case.name if use_case_id is None else use_case_id
        """The use case's stored name."""

    def query(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        latest_due_first: bool = False,
        limit: int | None = None,
        with_data: bool = True,
    ) -> Iterator[T]:
        """Return the tasks in this state by `due_time`, each once. This reads lazily, a page at a time.

        Args:
            since: Only tasks that came into the state (`update_time`) at this time or later.
            until: Only tasks that came into the state before this time.
            latest_due_first: Reverse the order.
            limit: At most so many tasks.
            with_data: False leaves `data` out, which saves requests if it is large.

        Examples:
            >>> for order in Order.ship.failed.query(limit=100):
            ...     print(order.task_id, order.last_error)
        """
        check_limit("limit", limit)
        check_flags(latest_due_first=latest_due_first, with_data=with_data)
        return self._scan(since, until, latest_due_first=latest_due_first, with_data=with_data).rows(limit)

    def page(
        self,
        *,
        limit: int = 50,
        cursor: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        latest_due_first: bool = False,
        with_data: bool = True,
    ) -> TaskPage[T]:
        """Return up to `limit` tasks, and a cursor for the next page, which another process can use.

        Another query's cursor raises ValueError.

        Args:
            limit: The size of a page.
            cursor: The previous page's cursor, by default from the beginning.
            since: Only tasks that came into the state at this time or later.
            until: Only tasks that came into the state before this time.
            latest_due_first: Reverse the order.
            with_data: False leaves `data` out, which saves requests if it is large.

        Examples:
            >>> page = Order.ship.pending.page(limit=50)
            >>> next_page = Order.ship.pending.page(limit=50, cursor=page.cursor)
        """
        from pynamodb_tracker.step.pages import TaskPage, begin_at, cursor_of  # noqa: PLC0415 - 2 ms, and few cold starts need it

        check_limit("limit", limit)
        check_flags(latest_due_first=latest_due_first, with_data=with_data)
        scan = self._scan(since, until, latest_due_first=latest_due_first, with_data=with_data)
        scan_id = begin_at(cursor, scan, self.use_case_id, str(self))
        tasks = list(scan.rows(limit))
        more = len(tasks) == limit and scan.has_more()
        return TaskPage(tasks, cursor_of(scan_id, scan.positions) if more else None)

    def index_page(
        self,
        *,
        limit: int = 50,
        cursor: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        latest_due_first: bool = False,
    ) -> IndexPage:
        """Return up to `limit` index entries without their rows, and a cursor for the next ones, also for `page`.

        This is for lists that people look at: 50 tasks take about 2 read units, where `page` takes over 50. A task may
        have changed since, be gone, or have expired.

        Args:
            limit: The size of a page.
            cursor: The previous page's cursor, by default from the beginning.
            since: Only tasks that came into the state at this time or later.
            until: Only tasks that came into the state before this time.
            latest_due_first: Reverse the order.

        Examples:
            >>> assert [entry.task_id for entry in Order.ship.pending.index_page().tasks] == ["o-2"]
        """
        from pynamodb_tracker.step.pages import IndexEntry, IndexPage, begin_at, cursor_of  # noqa: PLC0415 - as above

        check_limit("limit", limit)
        check_flags(latest_due_first=latest_due_first)
        scan = self._scan(since, until, latest_due_first=latest_due_first)
        scan_id = begin_at(cursor, scan, self.use_case_id, str(self))
        found: dict[str, Item] = {}  # a task that moves may be found twice
        more = False
        for entry in scan.entries(limit and limit + 1):
            if more := len(found) == limit:
                break
            scan.positions[entry["status_key"]["S"]] = position(entry)
            found[entry["task_id"]["S"]] = entry
        return IndexPage(
            [IndexEntry.of(entry) for entry in found.values()], cursor_of(scan_id, scan.positions) if more else None
        )

    def count(self, *, since: datetime | None = None, until: datetime | None = None, up_to: int | None = None) -> int:
        """Return how many tasks the index has in this state, for about 23 read units per 1,000 tasks.

        Args:
            since: Only tasks that came into the state at this time or later.
            until: Only tasks that came into the state before this time.
            up_to: Where to stop: with 1000, the result 1000 means 1,000 or more.

        Examples:
            >>> assert Order.ship.pending.count(up_to=1_000) == 1
        """
        check_limit("up_to", up_to)
        return self._scan(since, until).count(up_to)

    aquery = ahead(query)
    """For `async for`. It reads about 100 tasks at a time."""
    apage = awaited(page)
    aindex_page = awaited(index_page)
    acount = awaited(count)

    def _scan(
        self, since: datetime | None, until: datetime | None, *, latest_due_first: bool = False, with_data: bool = True
    ) -> StateScan[T]:
        within = window(since, until)
        return StateScan(self.model, self.code, within, latest_due_first=latest_due_first, with_data=with_data)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, State):
            return NotImplemented
        return (self.use_case_id, self.code) == (other.use_case_id, other.code)

    def __hash__(self) -> int:
        return hash((self.use_case_id, self.code))

    def __str__(self) -> str:
        return f"{self.step} {self.status}" if self.status else end_of(self.code) or f"unknown {self.code}"

    def __repr__(self) -> str:
        return f"<State {self.model.__name__} {self} ({self.code})>"


class CancelledOf(Protocol):
    """The type of `cancelled`, which differs between a class and a task."""

    @overload
    def __get__(self, instance: None, owner: type[T]) -> State[T]: ...

    @overload
    def __get__(self, instance: TaskRow, owner: Any) -> CancelRecord | None: ...


def window(since: datetime | None, until: datetime | None) -> Window:
    since, until = check_time("since", since), check_time("until", until)
    if since is not None and until is not None and since >= until:
        raise ValueError(f"the window is empty: since={since} is not before until={until}")
    return Window(since, until)


def due_until(state: State[T], latest: datetime) -> Iterator[T]:
    """Return a state's tasks that are due until then, in order, without data."""
    return StateScan(state.model, state.code, Window(), latest=latest, with_data=False).rows()


def counted(model: type[T]) -> dict[State[T], full_scan.Count]:
    """Return the number of tasks in every state of the index, and in codes that no step declares.

    Succeeded tasks from before an `index_succeeded=False` are not counted.
    """
    found, states = full_scan.counts(model), model._states  # noqa: SLF001 - hidden from users
    unknown: dict[int, State[T]] = {code: State(model, "", None, code) for code in found.keys() - states.keys()}
    known = {code: state for code, state in {**states, **unknown}.items() if code not in model.tracker.unindexed}
    return {state: found.get(code, full_scan.Count()) for code, state in sorted(known.items())}


def waiting_in(state: State[T], since: datetime | None, until: datetime | None) -> Iterator[T]:
    """Yield the tasks that wait for other tasks or signals, the latest due first, without data."""
    scan = StateScan(state.model, state.code, window(since, until), latest_due_first=True, with_data=False)
    now = stamp(clock.now())
    for row in scan.rows():
        if row._row_state.stored["due_time"]["S"] <= now:
            return
        if {"blockers", "awaited_signals"} & row._row_state.stored.keys():
            yield row


def given_up(
    model: type[T], steps: Collection[str], since: datetime | None, until: datetime | None, *, most: int
) -> tuple[list[T], bool]:
    """Do what the query does, which searches up to `most` tasks at the first step, about 40 per read unit."""
    return due.given_up(model, steps, window(since, until), most)


def peek(state: State[T], most: int, *, latest_due_first: bool = False) -> tuple[list[Item], bool]:
    """Return the main values of a state's first index entries, and whether there are more. One request per shard."""
    return StateScan(state.model, state.code, Window(), latest_due_first=latest_due_first).peek(most)


def count_due(state: State[T], now: datetime, *, later: bool, up_to: int) -> int:
    """Return how many of a state's tasks are due until then, or `later`, at most `up_to`."""
    which: dict[str, Any] = {"after": now} if later else {"latest": now}
    return StateScan(state.model, state.code, Window(), **which).count(up_to)


all_tasks = full_scan.tasks
