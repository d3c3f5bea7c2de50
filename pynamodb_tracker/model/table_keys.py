"""The keys of a table and of its indexes in words, and where those of an existing table are not as declared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_KEYS = {"HASH": "hash key", "RANGE": "range key"}


def types_of(definitions: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the types of attributes by name, as DynamoDB writes them: S, N or B."""
    return {each["AttributeName"]: each["AttributeType"] for each in definitions}


def keys_in_words(schema: Iterable[Mapping[str, str]], types: Mapping[str, str]) -> dict[str, str]:
    """Return the hash key and the range key in words; those of an index may have several attributes."""
    keys: dict[str, list[str]] = {kind: [] for kind in _KEYS}
    for key in schema:
        name = key["AttributeName"]
        keys[key["KeyType"]].append(f"{name} ({types[name]})")
    return {_KEYS[kind]: " and ".join(names) or "none" for kind, names in keys.items()}


def key_differences(declared: Mapping[str, Any], described: Mapping[str, Any]) -> Iterator[str]:
    """Yield where keys of an existing table and its indexes differ from PynamoDB's schema of its class."""
    expected, found = types_of(declared["attribute_definitions"]), types_of(described["AttributeDefinitions"])
    indexes = {
        index["IndexName"]: index
        for kind in ("GlobalSecondaryIndexes", "LocalSecondaryIndexes")
        for index in described.get(kind) or ()
    }
    pairs = [("", declared["key_schema"], described["KeySchema"])]
    for index in (*declared["global_secondary_indexes"], *declared["local_secondary_indexes"]):
        name = index["index_name"]
        if name in indexes:
            pairs.append((f" of {name}", index["key_schema"], indexes[name]["KeySchema"]))
        else:
            yield f"it has no index {name}"
    for of, wanted, there in pairs:
        actual = keys_in_words(there, found)
        for subject, key in keys_in_words(wanted, expected).items():
            if actual[subject] != key:
                yield f"its {subject}{of} is {actual[subject]}, not {key}"
