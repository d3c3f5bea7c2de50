"""The job store: APScheduler's interface, on the table of the tracker."""

from __future__ import annotations

from datetime import timedelta

from apscheduler.jobstores.base import BaseJobStore
from apscheduler.util import maybe_ref

from pynamodb_tracker.apscheduler.serializers import PickleSerializer, Serializer
from pynamodb_tracker.arguments import check_duration, check_key
from pynamodb_tracker.task.task import Task


class DynamoDBJobStore(BaseJobStore):  # type: ignore[misc]  # APScheduler is untyped
    """Keeps the jobs of APScheduler in the table of your tasks, where several schedulers may share them.

    `table` is a class of that table, or a textual reference to one, such as "shop.tasks:AppTask". Stores of different
    names share no jobs. A scheduler claims a job for `lock_for` before it runs it: if it dies meanwhile, another one
    runs the job after that time. `look_every` is how long it takes at most until a scheduler finds a job that another
    process has added. ValueError or TypeError for settings that cannot work.
    """

    def __init__(
        self,
        table: type[Task] | str,
        *,
        store: str = "default",
        serializer: Serializer | None = None,
        lock_for: timedelta = timedelta(seconds=60),
        look_every: timedelta = timedelta(seconds=30),
    ) -> None:
        super().__init__()
        self._table: type[Task] = maybe_ref(table)
        self._store = check_key("name of a store", store)
        self._serializer: Serializer = serializer or PickleSerializer()
        self._lock_for = check_duration("lock_for", lock_for)
        self._look_every = check_duration("look_every", look_every)
