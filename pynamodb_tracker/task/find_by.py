"""Finds tasks by an attribute, with an index that the table's class declares."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import copy
from datetime import datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pynamodb.attributes import Attribute
from pynamodb.constants import STRING
from pynamodb.indexes import GlobalSecondaryIndex, KeysOnlyProjection
from pynamodb.types import HASH, RANGE

from pynamodb_tracker.aio.lazy import ahead, awaited
from pynamodb_tracker.dynamodb.limits import mark_as_key
from pynamodb_tracker.exceptions import DefinitionError
from pynamodb_tracker.model.arguments import check_flags, check_key, check_limit, check_task_id, did_you_mean, shown
from pynamodb_tracker.model.row import T, TaskRow
from pynamodb_tracker.query.attribute_scan import AttributeScan, Place
from pynamodb_tracker.step.pages import TaskPage, cursor_of, read_cursor
from pynamodb_tracker.step.state import State, window

M = TypeVar("M", bound=TaskRow)

_INDEX_NAME = re.compile(r"[A-Za-z0-9_.-]{3,255}")
"""https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/HowItWorks.NamingRulesDataTypes.html"""


class FindBy(GlobalSecondaryIndex[T]):  # type: ignore[no-untyped-call]  # PynamoDB's hook is untyped
    """An index on the table's class, which finds tasks by an attribute's value.

    `AppTask.by_customer` finds tasks of all use cases, `Order.by_customer` only its own. An empty text counts as no
    value, and more than 1,024 bytes raise ValueNotStorableError. The index costs 1 write unit for a new task with a
    value, and 2 when the value changes. A value with more than 1,000 new tasks per second, such as a country, would
    throttle the table. The index is a moment behind the table, but every returned task has the value.

    Methods that begin with `a` are awaited.

    Args:
        attribute: A text attribute of the table's class.
        index_name: The stored name, by default `customer-index` for an attribute that is stored as `customer`.

    Examples:
        >>> customer = UnicodeAttribute(null=True)
        >>> by_customer = FindBy(customer)
    """

    def __init__(self: FindBy[Any], attribute: Attribute[Any], *, index_name: str | None = None) -> None:
        given: object = attribute
        is_own = all(attribute is not each for each in TaskRow.get_attributes().values())
        if not (isinstance(given, Attribute) and given.attr_type == STRING and is_own):
            raise DefinitionError(
                f"FindBy({shown(attribute)}): write an attribute of your own that is stored as text, as in "
                "by_customer = FindBy(customer)"
            )
        self.attribute = attribute
        self.Meta = SimpleNamespace(projection=KeysOnlyProjection(), index_name=index_name)
        mark_as_key(attribute)

    def __set_name__(self, owner: type[T], name: str) -> None:
        self.Meta.index_name = self.Meta.index_name or f"{self.attribute.attr_name}-index"

    if TYPE_CHECKING:  # PynamoDB gives each class its own copy

        def __get__(self, instance: object, owner: type[M]) -> FindBy[M]: ...

    def __deepcopy__(self, _memo: object) -> Self:
        return copy(self)  # with the attribute of the class

    def mistakes(self, model: type[TaskRow]) -> Iterator[str]:
        """Yield mistakes in its declaration."""
        stored, name = self.attribute.attr_name, self.Meta.index_name
        if not any(each is self.attribute for each in model.get_attributes().values()):
            yield f": FindBy({stored}) takes an attribute of the table's class that no use case declares again"
        elif not _INDEX_NAME.fullmatch(str(name)):
            yield f": FindBy needs index_name= with 3 to 255 letters, digits, or any of _ . -, not {shown(name)}"

    def query(  # type: ignore[override]
        self,
        value: str,
        *,
        state: State[T] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        newest_first: bool = False,
        limit: int | None = None,
    ) -> Iterator[T]:
        """Return the tasks with this value in the order of their creation, each once, without expired ones.

        This reads lazily: one request for entries, and one for each 100 rows.

        Args:
            value: The attribute's value.
            state: Only tasks in this state. Reading the others costs, too.
            since: Only tasks created at this time or later.
            until: Only tasks created before this time.
            newest_first: Reverse the order.
            limit: At most so many tasks.

        Examples:
            >>> orders = list(Order.by_customer.query("ada"))
        """
        check_limit("limit", limit)
        return self._scan(value, state, since, until, newest_first=newest_first).rows(limit)

    def page(
        self,
        value: str,
        *,
        limit: int = 50,
        cursor: str | None = None,
        state: State[T] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        newest_first: bool = False,
    ) -> TaskPage[T]:
        """Return up to `limit` tasks, and a cursor for the next page, which another process can use.

        Another query's cursor raises ValueError.

        Args:
            value: The attribute's value.
            limit: The size of a page.
            cursor: The previous page's cursor, by default from the beginning.
            state: Only tasks in this state. Reading the others costs, too.
            since: Only tasks that were created at this time or later.
            until: Only tasks that were created before this time.
            newest_first: Reverse the order.

        Examples:
            >>> page = Order.by_customer.page("ada", limit=50)
        """
        check_limit("limit", limit)
        scan = self._scan(value, state, since, until, newest_first=newest_first)
        times = scan.window.since, scan.window.until  # in UTC, in whichever zone they were given
        scan_id = [self.Meta.index_name, value, scan.code, newest_first, *map(str, times)]
        scan_id.append(scan.model.tracker.use_case.name if scan.model.tracker.has_use_case else None)
        if cursor is not None:
            scan.place = read_cursor(cursor, scan_id, _checked_place, f"{self.attribute.attr_name}={value}")
            if not scan.has_place(scan.place):
                raise ValueError(f"this is not a page cursor: {shown(cursor)}. It points outside the window")
        tasks = list(scan.rows(limit))
        return TaskPage(tasks, cursor_of(scan_id, scan.place) if scan.has_more() else None)

    aquery = ahead(query)
    """For `async for`. It reads about 100 tasks at a time."""
    apage = awaited(page)

    def _scan(
        self, value: str, state: State[T] | None, since: datetime | None, until: datetime | None, *, newest_first: bool
    ) -> AttributeScan[T]:
        check_flags(newest_first=newest_first)
        model: type[T] = self._model  # type: ignore[assignment]  # PynamoDB's hint is of an instance
        code, name = None, self.attribute.attr_name
        if state is not None:
            of: Any = getattr(state, "model", None)
            if not (isinstance(of, type) and issubclass(of, model)):
                raise ValueError(f"{shown(state)} is not a state of {model.__name__}: write state=Order.ship.failed")
            model, code = of, state.code
        index, text, times = self.Meta.index_name, check_key(name, value), window(since, until)
        return AttributeScan(model, index, name, text, times, newest_first, code)

    def _get_schema(self) -> Any:  # type: ignore[override]  # PynamoDB's is a class method
        keys = {self.attribute.attr_name: HASH, "create_time": RANGE}
        return {
            "index_name": self.Meta.index_name,
            "key_schema": [{"AttributeName": name, "KeyType": kind} for name, kind in keys.items()],
            "projection": {"ProjectionType": KeysOnlyProjection.projection_type},
            "attribute_definitions": [{"AttributeName": name, "AttributeType": STRING} for name in keys],
        }

    def _update_model_schema(self, schema: Any) -> None:  # type: ignore[override]
        own = self._get_schema()
        schema["global_secondary_indexes"].append({**own, "provisioned_throughput": {}})
        known = schema["attribute_definitions"]
        known += [each for each in own["attribute_definitions"] if each not in known]

    def _hash_key_attribute(self) -> Any:  # type: ignore[override]
        return self.attribute


def find_bys(model: type[T]) -> dict[str, FindBy[T]]:
    """Return the FindBy indexes by attribute name."""
    names = {id(attribute): name for name, attribute in model.get_attributes().items()}
    indexes = (index for index in model._indexes.values() if isinstance(index, FindBy))  # noqa: SLF001 - PynamoDB's
    return {names[id(index.attribute)]: index for index in indexes}


def find_by_text(model: type[T], text: str) -> tuple[FindBy[T], str]:
    """Parse a text such as `customer=c-7` into an index and a value."""
    name, equals, value = text.partition("=")
    known = find_bys(model)
    if not (equals and value):
        raise ValueError(f"{text!r} is not NAME=VALUE, as in customer=c-7")
    if name not in known:
        hint = did_you_mean(name, known) or (f". It has {', '.join(known)}" if known else ". It declares none")
        raise ValueError(f"{model.__name__} does not have FindBy({name}){hint}")
    return known[name], value


def _checked_place(stored: Any) -> Place:
    create_time, task_id, use_case_id = stored
    return check_key("create_time", create_time), check_task_id(task_id), check_key("use case", use_case_id)
