"""The indexes that the class of a table declares, as PynamoDB has them for `create_table`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pynamodb_tracker.model.row import StatusIndex
from pynamodb_tracker.task.task import Task

STATUS_INDEX: str = StatusIndex.Meta.index_name


@dataclass(frozen=True, slots=True)
class Index:
    """An index of the user's own."""

    name: str
    is_local: bool
    """Whether it has the hash key of the table."""
    keys: tuple[tuple[str, str], ...]
    """Its attributes with their types, the hash key first."""
    projection: str
    included: tuple[str, ...]
    """The attributes that it has besides keys, if the projection is INCLUDE."""


def own_indexes(model: type[Task]) -> list[Index]:
    """Return the indexes besides the status index, by name."""
    schema = model.tracker.table.owner._get_schema()  # noqa: SLF001 - the same that PynamoDB sends
    return sorted(_indexes(schema), key=lambda index: index.name)


def index_names(model: type[Task]) -> list[str]:
    """Return the names of all indexes, the status index first."""
    return [STATUS_INDEX, *(index.name for index in own_indexes(model))]


def _indexes(schema: Any) -> Iterator[Index]:
    for kind in ("global", "local"):
        for index in schema[f"{kind}_secondary_indexes"]:
            if index["index_name"] == STATUS_INDEX:
                continue
            types = {each["AttributeName"]: each["AttributeType"] for each in index["attribute_definitions"]}
            names = [key["AttributeName"] for key in sorted(index["key_schema"], key=lambda key: key["KeyType"])]
            projection = index["projection"]
            yield Index(
                index["index_name"],
                kind == "local",
                tuple((name, types[name]) for name in names),
                projection["ProjectionType"],
                tuple(projection.get("NonKeyAttributes", ())),
            )
