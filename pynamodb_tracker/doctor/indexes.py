"""The indexes that the model declares: there, ready, by the right keys, and with what is read in them.

Further indexes are the business of those who made them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pynamodb_tracker.doctor.description import Description
from pynamodb_tracker.doctor.finding import Finding, Severity
from pynamodb_tracker.doctor.keys import told_keys, types_of
from pynamodb_tracker.model.row import StatusIndex

__all__ = ["in_indexes"]

_OURS = StatusIndex.Meta.index_name

_BREAKS = {
    "status": "Without status, query, page, todo and run_all fail as soon as there is a task.",
    "update_time": "Without update_time, counts fails, and so do query, page and count with since or until, and count "
    "of an ended state with keep_for.",
}
"""What comes of it where the status index lacks an attribute; the others serve those who read the index itself."""

_LARGE = (
    "Each change of status writes the whole row into the index as well: for a row of 20 KB, a task of one step "
    "takes 160 write units instead of 65."
)

_STATES = {
    "CREATING": ("Until it is ACTIVE, {readers} fail.", "Wait."),
    "DELETING": ("Without it, {readers} fail.", "Make it anew when it is gone."),
}
"""An index that is UPDATING can be used."""


def in_indexes(description: Description) -> Iterator[Finding]:
    """Yield what differs in each index that the class of the table declares."""
    expected, found = types_of(description.schema["attribute_definitions"]), description.indexes
    types = types_of(description.table["AttributeDefinitions"])
    for declared in description.declared_indexes:
        name = declared["index_name"]
        keys = told_keys(declared["key_schema"], expected)
        if name in found:
            yield from _in_state(name, found[name])
            yield from _in_index_keys(name, told_keys(found[name]["KeySchema"], types), keys)
            yield from _in_projection(name, found[name]["Projection"], declared["projection"])
        else:
            yield Finding(
                Severity.WRONG,
                f"index {name}",
                "none",
                f"hash key {keys['hash key']}, range key {keys['range key']}, projection "
                f"{_told(declared['projection'])}",
                f"Without it, {_readers(name)} fail; start and run work.",
                _how_to_add(name, description),
            )


def _in_state(name: str, found: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield an index that cannot be read; DynamoDB refuses queries while it fills an index.

    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.OnlineOps.html
    """
    state = found.get("IndexStatus", "ACTIVE")  # local indexes have none
    if state in _STATES:
        meaning, to_do = _STATES[state]
        yield Finding(Severity.WRONG, f"index {name}", state, "ACTIVE", meaning.format(readers=_readers(name)), to_do)


def _in_index_keys(name: str, found: Mapping[str, str], expected: Mapping[str, str]) -> Iterator[Finding]:
    """Yield keys of another name, by which nothing is found, and of another type, for which writes are refused.

    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.html#GSI.Writes
    """
    for subject, key in expected.items():
        if found[subject] != key:
            is_type = found[subject].partition(" (")[0] == key.partition(" (")[0]
            broken = "DynamoDB refuses every write of a task that has it" if is_type else f"{_readers(name)} fail"
            meaning = f"{broken[0].upper()}{broken[1:]}."
            yield Finding(Severity.WRONG, f"{subject} of {name}", found[subject], key, meaning, _anew(name))


def _in_projection(name: str, found: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield a projection that lacks something, and one that has more and so costs more.

    A write of an index costs by the size of its entry; one that moves an entry counts twice:
    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.html#GSI.ThroughputConsiderations.Writes
    """
    there, needed = _attributes(found), _attributes(expected)
    missing = [] if there is None else ["the whole row"] if needed is None else _without(needed, there)
    more = [] if needed is None else ["the whole row"] if there is None else _without(there, needed)
    breaks = [_BREAKS[each] for each in missing if name == _OURS and each in _BREAKS]
    if rest := [each for each in missing if name != _OURS or each not in _BREAKS]:
        breaks.append(f"Who reads the index itself does not find {', '.join(rest)}.")
    if more:
        breaks.append(_cost(name, more))
    if breaks:
        advice = not missing or (name == _OURS and not set(missing) & set(_BREAKS))
        severity = Severity.ADVICE if advice else Severity.WRONG
        subject, meaning = f"projection of {name}", " ".join(breaks)
        yield Finding(severity, subject, _told(found), _told(expected), meaning, _anew(name))


def _cost(name: str, more: list[str]) -> str:
    if name == _OURS and more == ["the whole row"]:
        return _LARGE
    return f"It has {', '.join(more)} in addition, and each write of the index pays for that."


def _attributes(projection: Mapping[str, Any]) -> list[str] | None:
    """Return what is projected beside the keys; None is everything."""
    return None if projection["ProjectionType"] == "ALL" else list(projection.get("NonKeyAttributes", ()))


def _without(names: list[str], others: list[str]) -> list[str]:
    return [name for name in names if name not in others]


def _told(projection: Mapping[str, Any]) -> str:
    return " ".join([projection["ProjectionType"], ", ".join(projection.get("NonKeyAttributes", ()))]).strip()


def _readers(name: str) -> str:
    return "query, page, count, counts, todo and run_all" if name == _OURS else "queries of it"


def _how_to_add(name: str, description: Description) -> str:
    """Return how to add an index; a local one comes with its table: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/LSI.html."""
    if name in {index["index_name"] for index in description.schema["local_secondary_indexes"]}:
        owner = description.declared.owner.__name__
        return f"A local index is made with its table: give {owner}.Meta another table_name, or declare no such index."
    return "Add it in the template of the table or by UpdateTable: create_table adds nothing to a table that is there."


def _anew(name: str) -> str:
    """Return how to change what cannot be changed: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_UpdateGlobalSecondaryIndexAction.html."""
    return (
        f"An index cannot be changed: delete it and make it anew. Until it is there again, {_readers(name)} fail; "
        "start and run work."
    )
