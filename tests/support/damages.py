"""Damaged rows: every attribute once missing, once of a wrong type, and with invalid values."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

from pynamodb.attributes import NumberAttribute

from pynamodb_tracker import ExecutionContext, Signal, Step, Task, UseCase
from pynamodb_tracker.testing import StoppedClock
from tests.support.rows import client, stored
from tests.support.workers import die

_KEYS = {"task_id", "use_case_id", "status_key", "due_time"}
"""The keys of the table and its index. DynamoDB does not store them with a wrong type."""

_MOST_WRITES = 25


class DepotTask(Task):
    class Meta:
        """A running test replaces the name and sets an endpoint."""

        table_name = "depot"
        region = "us-east-1"


class Parcel(DepotTask):
    use_case_id = UseCase("parcel", keep_for=timedelta(days=30))

    pack = Step(10, max_attempts=2)

    paid = Signal()

    weight = NumberAttribute(null=True)


class Damage(NamedTuple):
    attribute: str
    how: str
    changes: dict[str, Any]
    """Stored values by name. None removes one."""
    runs: bool = False
    """Whether the task runs anyway, because the attribute does not matter or the claim overwrites it."""
    fails: bool = False
    """Whether the block runs, but the attempt fails afterwards."""
    was_running: bool = False
    """Whether a worker died while running the task. Otherwise the task is pending."""
    is_hidden: bool = False
    """Whether the row is missing from the index, or not due there."""

    @property
    def task_id(self) -> str:
        return f"{self.attribute} {self.how}"

    @property
    def named(self) -> str:
        return {"v": "format_version"}.get(self.attribute, self.attribute)

    @property
    def is_unreadable(self) -> bool:
        """Whether the damage shows when the row is loaded. Other damages show when the attribute is used."""
        return not self.fails and (self.attribute, self.how) not in _FOUND_LATER

    def is_named_in(self, text: object) -> bool:
        return self.attribute in str(text).replace(self.task_id, "")


_FOUND_LATER = {("data", "no JSON"), ("data", "no dictionary"), ("status_key", "of another state")}

HEALTHY = ["healthy 0", "healthy 1", "healthy 2"]
"""Ids of undamaged tasks that are due before, with, and after the damaged ones."""

_WRITTEN_BY_CLAIM = {"status_key", "lock_expire_time", "worker", "saves", "update_time", "expire_time"}
_OF_THE_USER = {"data", "weight"}

_MISSING = ("status", "due_time", "create_time", "creation", "attempt", "fence", "unfinished", "v")

_NULL = ("queued", "lock", "parent")
"""Optional attributes in which NULL is neither a value nor the same as absence."""

_HOSTILE: dict[str, tuple[dict[str, Any], ...]] = {
    "status": ({"N": "1.5"}, {"N": "-1"}, {"N": "9" * 30}),
    "due_time": ({"S": "tomorrow"}, {"S": "9999-99-99T00:00:00.000000+0000"}),
    "create_time": ({"S": "yesterday"},),
    "creation": ({"S": "a#b"},),
    "attempt": ({"N": "-5"}, {"N": "0.5"}),
    "fence": ({"N": "-5"}, {"N": "1.5"}, {"N": "1" + "0" * 30}, {"N": "9" * 37 + "E+88"}),
    "lock": ({"S": "f" * 24}, {"S": "zz"}, {"S": "7" + "F" * 23}, {"S": "9" * 40}),
    "unfinished": ({"L": [{"S": "x"}]}, {"L": [{"N": "-1"}]}, {"M": {}}),
    "release_count": ({"N": "-1"},),
    "postpone_count": ({"N": "-1"},),
    "errors": ({"L": [{"S": "x"}]}, {"L": [{"M": {"time": {"S": "then"}}}]}),
    "v": ({"N": "-1"},),
    "round": ({"S": "a#b"},),
    "queued": ({"M": {}}, {"M": {"due_time": {"S": "soon"}, "attributes": {"M": {}}}}),
    "request_count": ({"N": "-1"},),
    "request_tokens": ({"L": [{"N": "1"}]},),
    "creator": (),
    "parent": ({"S": "nobody"}, {"S": ""}),
    "blockers": ({"N": "-1"},),
    "join_token": ({"S": "zz"},),
    "missed_signals": ({"L": []},),
    "wait_until": ({"S": "soon"},),
    "group_number": ({"N": "-1"},),
    "turn_due_time": ({"S": "soon"},),
    "repeat": ({"S": "{"}, {"S": "[]"}),
    "occurrence": ({"S": "2026-01-01T00:00:00"},),
    "occurrence_count": ({"N": "-1"},),
    "extra_time": ({"S": "soon"},),
    "last_run": ({"S": "{}"}, {"S": "[1]"}),
    "trace": ({"S": "[1, 2]"}, {"S": "{"}),
}
"""Values with the right type that the tracker never stores."""

_WHILE_RUNNING: dict[str, tuple[dict[str, Any] | None, ...]] = {
    "lock": ({"S": "f" * 24},),
    "lock_expire_time": (None, {"BOOL": True}, {"S": "soon"}),
    "attempt": (None, {"N": "-5"}),
    "unfinished": (None, {"S": "x"}),
}


def _damages() -> Iterator[Damage]:
    for name in sorted(attribute.attr_name for attribute in Parcel.get_attributes().values()):
        wrong = {"N": "1"} if name == "urgent" else {"BOOL": True}
        if name not in _KEYS:
            yield Damage(name, "of a wrong type", {name: wrong}, runs=name in _WRITTEN_BY_CLAIM | _OF_THE_USER)
        for number, value in enumerate(_HOSTILE.get(name, ())):
            of = {"fails": name == "parent", "is_hidden": name == "due_time"}
            yield Damage(name, f"hostile {number}", {name: value}, **of)
    for name in _MISSING:
        yield Damage(name, "missing", {name: None}, is_hidden=name == "due_time")
    for name in _NULL:
        yield Damage(name, "NULL", {name: {"NULL": True}})
    yield Damage("status_key", "missing", {"status_key": None}, runs=True, is_hidden=True)
    yield Damage("status_key", "of another state", {"status_key": {"S": "parcel#12#0"}}, runs=True)
    yield Damage("group_number", "missing", {"group": {"S": "ada"}})
    yield Damage(
        "blockers", "missing", {"group": {"S": "ada"}, "group_number": {"N": "1"}, "turn_due_time": {"S": _EPOCH}}
    )
    yield Damage("request_count", "missing", {"queued": {"M": {"due_time": {"S": _EPOCH}, "attributes": {"M": {}}}}})
    yield Damage("data", "no JSON", {"data": {"S": "{"}}, runs=True)
    yield Damage("data", "no dictionary", {"data": {"S": "[1]"}}, runs=True)
    yield Damage("data", "no pointer", {"data": {"M": {"slot": {"N": "1"}}}}, runs=True)
    for name, values in _WHILE_RUNNING.items():
        for number, damaged in enumerate(values):
            yield Damage(name, f"while running {number}", {name: damaged}, was_running=True)


_EPOCH = "1970-01-01T00:00:00.000000+0000"

DAMAGES = [*_damages()]


def ignored(_ctx: ExecutionContext[Any]) -> None:
    pass


def put_rows(clock: StoppedClock, damages: list[Damage]) -> None:
    """Store one row per damage, and the healthy ones."""
    Parcel.create("pending", data={"fragile": True})
    Parcel.create("running")
    die(Parcel.pack, "running")
    clock.advance(timedelta(hours=1))
    pending, running = stored(Parcel, "pending"), stored(Parcel, "running")
    items = []
    for damage in damages:
        item = {**(running if damage.was_running else pending), "task_id": {"S": damage.task_id}, **damage.changes}
        items.append({name: value for name, value in item.items() if value is not None})
    before, after = _EPOCH, running["due_time"]["S"]
    for task_id, due in zip(HEALTHY, (before, pending["due_time"]["S"], after), strict=True):
        items.append({**pending, "task_id": {"S": task_id}, "due_time": {"S": due}})
    requests: list[dict[str, Any]] = [{"PutRequest": {"Item": item}} for item in items]
    requests += [{"DeleteRequest": {"Key": Parcel.tracker.key(each)}} for each in ("pending", "running")]
    for at in range(0, len(requests), _MOST_WRITES):
        answer = client(Parcel).batch_write_item(
            RequestItems={Parcel.Meta.table_name: requests[at : at + _MOST_WRITES]}
        )
        assert not answer["UnprocessedItems"]
