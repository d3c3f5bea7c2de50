"""Checks keys, declared indexes, and the key types of other indexes."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pynamodb_tracker.doctor.description import Description, Finding, advice, wrong
from pynamodb_tracker.model.row import StatusIndex
from pynamodb_tracker.model.schema import keys_in_words, types_of

_STATUS_INDEX = StatusIndex.Meta.index_name

_NEEDED = {
    "status": "Without status, query, page, due and run_all fail as soon as there is a task.",
    "update_time": "Without update_time, counts fails, and so do query, page and count with since or until, and count "
    "of an ended state with keep_for.",
}
"""What fails if the status index lacks an attribute."""

_WHOLE_ROW = (
    "Each status change also writes the whole row to the index: with a row of 20 KB, a task with one step takes 160 "
    "write units instead of 65."
)

_INDEX_STATES = {
    "CREATING": ("Until it is ACTIVE, {readers} fail.", "Wait."),
    "DELETING": ("Without it, {readers} fail.", "Create it again once it is deleted."),
}
"""UPDATING is fine: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.OnlineOps.html"""


def check_keys(description: Description) -> Iterator[Finding]:
    found = keys_in_words(description.table["KeySchema"], types_of(description.table["AttributeDefinitions"]))
    expected = keys_in_words(description.schema["key_schema"], types_of(description.schema["attribute_definitions"]))
    for subject, key in expected.items():
        if found[subject] != key:
            yield wrong(
                subject,
                found[subject],
                key,
                "DynamoDB refuses the tracker's requests.",
                f"A table's key cannot be changed: give {description.owner}.Meta another table_name, and call "
                "create_table(wait=True).",
            )


def check_attribute_types(description: Description) -> Iterator[Finding]:
    # DynamoDB refuses to write an attribute with another type than in an index's key:
    # https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.html#GSI.Writes
    types = types_of(description.table["AttributeDefinitions"])
    declared = {index["index_name"] for index in description.declared_indexes}
    indexes = [index for name, index in description.indexes.items() if name in declared]
    done = {name for each in (description.table, *indexes) for name in _key_names(each)}  # other checks compare these
    for model in description.models:
        for attribute in model.get_attributes().values():
            name, stored = attribute.attr_name, attribute.attr_type
            if name not in done and types.get(name, stored) != stored:
                done.add(name)
                keyed = [each for each, index in description.indexes.items() if name in _key_names(index)]
                yield wrong(
                    f"attribute {name}",
                    f"{types[name]}, as a key of {' and '.join(keyed)}",
                    f"{stored}, as {model.__name__} stores it",
                    "DynamoDB refuses every write to a task that has this attribute.",
                    "An index's key cannot be changed: delete the index, or create it again with this type.",
                )


def check_indexes(description: Description) -> Iterator[Finding]:
    expected = types_of(description.schema["attribute_definitions"])
    types = types_of(description.table["AttributeDefinitions"])
    for declared in description.declared_indexes:
        name = declared["index_name"]
        keys = keys_in_words(declared["key_schema"], expected)
        if index := description.indexes.get(name):
            state = index.get("IndexStatus", "ACTIVE")  # local indexes do not have a status
            if state in _INDEX_STATES:
                meaning, to_do = _INDEX_STATES[state]
                meaning = meaning.format(readers=_reading_calls(name))
                yield wrong(f"index {name}", state, "ACTIVE", meaning, to_do)
            yield from _check_index_keys(name, keys_in_words(index["KeySchema"], types), keys)
            yield from _check_projection(name, index["Projection"], declared["projection"])
        else:
            yield wrong(
                f"index {name}",
                "none",
                f"hash key {keys['hash key']}, range key {keys['range key']}, projection "
                f"{_projection_text(declared['projection'])}",
                f"Without it, {_reading_calls(name)} fail, but start and run still work.",
                _how_to_add(name, description),
            )


def _check_index_keys(name: str, found: Mapping[str, str], expected: Mapping[str, str]) -> Iterator[Finding]:
    # A wrong name makes queries fail, a wrong type makes writes fail:
    # https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.html#GSI.Writes
    for subject, key in expected.items():
        if found[subject] != key:
            if found[subject].partition(" (")[0] == key.partition(" (")[0]:
                meaning = "DynamoDB refuses every write to a task that has this attribute."
            else:
                meaning = f"{_reading_calls(name).capitalize()} fail."
            yield wrong(f"{subject} of {name}", found[subject], key, meaning, _how_to_replace(name))


def _check_projection(name: str, found: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterator[Finding]:
    # Extra attributes make writes more expensive:
    # https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.html#GSI.ThroughputConsiderations.Writes
    missing, extra = _missing_attributes(expected, found), _missing_attributes(found, expected)
    breaking = [each for each in missing if name == _STATUS_INDEX and each in _NEEDED]
    others = [each for each in missing if each not in breaking]
    meanings = [_NEEDED[each] for each in breaking]
    if others:
        meanings.append(f"Your own code that reads the index does not find {', '.join(others)}.")
    if extra == ["the whole row"] and name == _STATUS_INDEX:
        meanings.append(_WHOLE_ROW)
    elif extra:
        meanings.append(f"It also has {', '.join(extra)}, which makes every write to the index more expensive.")
    if meanings:
        is_advice = not missing or (name == _STATUS_INDEX and not breaking)
        finding = advice if is_advice else wrong
        yield finding(
            f"projection of {name}",
            _projection_text(found),
            _projection_text(expected),
            " ".join(meanings),
            _how_to_replace(name),
        )


def _missing_attributes(needed: Mapping[str, Any], there: Mapping[str, Any]) -> list[str]:
    if there["ProjectionType"] == "ALL":
        return []
    if needed["ProjectionType"] == "ALL":
        return ["the whole row"]
    return [name for name in needed.get("NonKeyAttributes", ()) if name not in there.get("NonKeyAttributes", ())]


def _projection_text(projection: Mapping[str, Any]) -> str:
    return " ".join([projection["ProjectionType"], ", ".join(projection.get("NonKeyAttributes", ()))]).strip()


def _reading_calls(name: str) -> str:
    return "query, page, count, counts, due and run_all" if name == _STATUS_INDEX else "queries of it"


def _how_to_add(name: str, description: Description) -> str:
    """Return how to add an index: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/LSI.html."""
    if name in {index["index_name"] for index in description.schema["local_secondary_indexes"]}:
        return (
            f"A local index can only be created with its table: give {description.owner}.Meta another table_name, or "
            "remove the index from the class."
        )
    return "Add it in the table's template or with UpdateTable. create_table does not change an existing table."


def _how_to_replace(name: str) -> str:
    return (
        "An index cannot be changed: delete it and create it again. Until it is ACTIVE again, "
        f"{_reading_calls(name)} fail, but start and run still work."
    )


def _key_names(described: Mapping[str, Iterable[Mapping[str, str]]]) -> set[str]:
    return {key["AttributeName"] for key in described["KeySchema"]}
