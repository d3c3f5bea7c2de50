"""The keys of the table, and the types of the attributes that a key is made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pynamodb_tracker.doctor.description import Description
from pynamodb_tracker.doctor.finding import Finding, Severity

__all__ = ["in_keys", "in_types", "told_keys", "types_of"]

_SUBJECTS = {"HASH": "hash key", "RANGE": "range key"}


def types_of(definitions: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the types of attributes by name, as DynamoDB writes them: S, N or B."""
    return {each["AttributeName"]: each["AttributeType"] for each in definitions}


def told_keys(schema: Iterable[Mapping[str, str]], types: Mapping[str, str]) -> dict[str, str]:
    """Return the hash key and the range key in words; those of an index may be of several attributes."""
    keys: dict[str, list[str]] = {kind: [] for kind in _SUBJECTS}
    for key in schema:
        name = key["AttributeName"]
        keys[key["KeyType"]].append(f"{name} ({types[name]})")
    return {_SUBJECTS[kind]: " and ".join(told) or "none" for kind, told in keys.items()}


def in_keys(description: Description) -> Iterator[Finding]:
    """Yield keys of the table that have another name or type."""
    found = told_keys(description.table["KeySchema"], types_of(description.table["AttributeDefinitions"]))
    expected = told_keys(description.schema["key_schema"], types_of(description.schema["attribute_definitions"]))
    for subject, key in expected.items():
        if found[subject] != key:
            yield Finding(
                Severity.WRONG,
                subject,
                found[subject],
                key,
                "DynamoDB refuses the requests of the tracker.",
                "The key of a table cannot be changed: give "
                f"{description.declared.owner.__name__}.Meta another table_name, and call create_table(wait=True).",
            )


def in_types(description: Description) -> Iterator[Finding]:
    """Yield attributes that the model stores in another type than the key of a further index has.

    DynamoDB refuses such a write, for the row as a whole:
    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.html#GSI.Writes
    """
    types, done = types_of(description.table["AttributeDefinitions"]), _told_with_their_keys(description)
    for model in description.models:
        for attribute in model.get_attributes().values():
            name, stored = attribute.attr_name, attribute.attr_type
            if name not in done and types.get(name, stored) != stored:
                done.add(name)
                indexes = [each for each, index in description.indexes.items() if name in _names(index)]
                yield Finding(
                    Severity.WRONG,
                    f"attribute {name}",
                    f"{types[name]}, as a key of {' and '.join(indexes)}",
                    f"{stored}, as {model.__name__} stores it",
                    "DynamoDB refuses every write of a task that has it.",
                    "The key of an index cannot be changed: delete the index, or make it anew with this type.",
                )


def _told_with_their_keys(description: Description) -> set[str]:
    """Return the attributes whose type is compared where a key is: of the table, and of indexes of the model."""
    declared = {index["index_name"] for index in description.declared_indexes}
    ours = [index for name, index in description.indexes.items() if name in declared]
    return {name for each in (description.table, *ours) for name in _names(each)}


def _names(described: Mapping[str, Iterable[Mapping[str, str]]]) -> set[str]:
    return {key["AttributeName"] for key in described["KeySchema"]}
