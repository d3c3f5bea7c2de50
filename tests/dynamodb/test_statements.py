"""As a PartiQL statement, each write does what its single request does: the same effect, refusal, answer and row."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any

import botocore.session
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from pynamodb.attributes import UnicodeAttribute

from pynamodb_tracker.clock import NEVER, stamp
from pynamodb_tracker.dynamodb import partiql
from pynamodb_tracker.model.changes import Changes
from pynamodb_tracker.transitions import StepStatements
from pynamodb_tracker.transitions.success import build_success
from pynamodb_tracker.writes.conditions import PreparedWrite
from pynamodb_tracker.writes.lock import Journal
from tests.engine.engine import Engine
from tests.support.writes import Order, as_told, claim_of, rendered, told_name, writes_of_deliver, writes_of_ship

Item = dict[str, Any]
Told = tuple[str, Item | None]
"""What was answered: done with the new row if it was asked for, refused with the row as it is, or an error's code."""

UNCHECKED = Config(parameter_validation=False)
LOWER, HIGHER = {"S": "a", "N": "1"}, {"S": "z", "N": "9"}
CODES = ("200", "201", "202", "203", "1000")
OTHER_CODES = {
    "ConditionalCheckFailed": "refused",
    "DuplicateItem": "refused",
    "ValidationError": "ValidationException",
}

IN_TRANSACTIONS = (
    "adopt",
    "check",
    "commit",
    "count",
    "delete in",
    "enter",
    "group",
    "ignore in",
    "succeed as a child",
    "wake",
)
"""What these writes begin with that are never sent alone, so never in a batch either."""
ALONE = {"send early", "send first", "send more", "succeed and wait"}
"""No statement expresses a DELETE from a set, if_not_exists of a map, or that a set does not contain something."""
LIKE_OTHERS = {"ask again", "begin anew", "merge and move", "reopen ended", "skip abandoned", "delete with turn"}
"""Writes that have no kind of guard or change that none of the others has."""
THOROUGH = {"claim with payload", "ignore", "ask once more", "reopen waiting", "delete"}
"""Writes with every kind of guard, which are tried with odd values, too."""
WRITES = {
    name: write
    for name, write in (writes_of_ship() | writes_of_deliver()).items()
    if not name.startswith((*IN_TRANSACTIONS, "send ")) and name not in LIKE_OTHERS | ALONE
}

COMPARED = re.compile(r"(?:(NOT) )?([\w#]+) (=|<=|<|>|IN) (:?\w+|\([\d, ]+\))|attribute_(not_exists|exists)\((\S+?)\)")
"""A part of a condition."""


class Rows:
    """A table, which has each row twice: one for the single request, one for the statement."""

    def __init__(self, client: Any, table: str) -> None:
        self.client = client
        self.table = table
        self.numbers = count()

    def put(self, items: Sequence[Item]) -> None:
        for at in range(0, len(items), 25):
            writes = [{"PutRequest": {"Item": item}} for item in items[at : at + 25]]
            assert not self.client.batch_write_item(RequestItems={self.table: writes})["UnprocessedItems"]

    def read(self, keys: Sequence[Item]) -> list[Item | None]:
        """Return the rows of these keys, without the keys."""
        found: dict[str, Item] = {}
        for at in range(0, len(keys), 100):
            wanted = {"Keys": list(keys[at : at + 100]), "ConsistentRead": True}
            answer = self.client.batch_get_item(RequestItems={self.table: wanted})
            found |= {item["task_id"]["S"]: own(item) or {} for item in answer["Responses"][self.table]}
        return [found.get(key["task_id"]["S"]) for key in keys]

    def alone(self, operation: str, request: Item) -> Told:
        send = getattr(self.client, operation[:-4].lower() + "_item")
        try:
            answer = send(TableName=self.table, ReturnValuesOnConditionCheckFailure="ALL_OLD", **request)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            is_refusal = code == "ConditionalCheckFailedException"
            return ("refused", own(error.response.get("Item"))) if is_refusal else (code, None)
        return "done", own(answer.get("Attributes"))

    def together(self, operation: str, requests: Sequence[Item]) -> list[Told]:
        entries = []
        for request in requests:
            statement: Any = partiql.statement(operation, {"TableName": self.table, **request})
            entries.append(statement.as_entry())
        return [told for at in range(0, len(entries), 25) for told in self._batch(entries[at : at + 25])]

    def _batch(self, entries: list[Item]) -> Iterator[Told]:
        for answer in self.client.batch_execute_statement(Statements=entries)["Responses"]:
            error = answer.get("Error")
            if error is None:
                yield "done", own(answer.get("Item"))
            else:
                yield OTHER_CODES.get(error["Code"], error["Code"]), own(error.get("Item"))


def own(item: Item | None) -> Item | None:
    return item and {name: value for name, value in item.items() if name not in {"task_id", "use_case_id"}}


def key(task_id: str) -> Item:
    return {"task_id": {"S": task_id}, "use_case_id": {"S": "order"}}


@pytest.fixture(scope="module")
def rows(dynamodb: Engine) -> Iterator[Rows]:
    client = botocore.session.get_session().create_client(
        "dynamodb", "us-east-1", endpoint_url=dynamodb.endpoint, config=UNCHECKED
    )
    kinds = {"task_id": "HASH", "use_case_id": "RANGE"}
    client.create_table(
        TableName="statements",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in kinds.items()],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in kinds],
    )
    yield Rows(client, "statements")
    client.delete_table(TableName="statements")
    client.close()


def differences(
    rows: Rows, operation: str, items: Sequence[Item | None], request: Callable[[Item], Item]
) -> tuple[list[Told], list[str]]:
    """Write to each item in both ways; return what the single requests were answered, and what was different."""
    alone, together = ([key(f"{next(rows.numbers)}") for _ in items] for _ in range(2))
    for keys in (alone, together):
        rows.put([{**own_key, **item} for own_key, item in zip(keys, items, strict=True) if item is not None])
    told = [rows.alone(operation, request(each)) for each in alone]
    told_together = rows.together(operation, [request(each) for each in together])
    left, left_together = rows.read(alone), rows.read(together)
    pairs = zip(items, zip(told, left, strict=True), zip(told_together, left_together, strict=True), strict=True)
    return told, [f"{item}: {one} alone, {other} in a batch" for item, one, other in pairs if one != other]


class Values(dict[str, Any]):
    """A value for every slot: texts between LOWER and HIGHER, and so are numbers."""

    def __init__(self, write: PreparedWrite, **given: str) -> None:
        self.kinds = {name: kind for _, kind, name in write._open if not name.startswith("own own_")}
        self.slots = {told_name(name): name for name in self.kinds}
        super().__init__({name: _value(name, kind) for name, kind in self.kinds.items()} | given)

    def typed(self, operand: str) -> Item:
        """Return the value of an operand of a condition: of a slot, or a number."""
        name = operand.removeprefix(":")
        if name == operand:
            return {"N": operand}
        slot = self.slots[name]
        return {self.kinds[slot]: self[slot]}


def _value(name: str, kind: str) -> Any:
    if name == "seen_status":
        return "200"
    values = {"S": f"m {name}", "N": "5", "L": [{"N": "3"}, {"M": {"type": {"S": name}}}], "M": {name: {"S": ""}}}
    values["SS"] = [name]
    return values[kind]


def starts(write: PreparedWrite) -> Iterator[tuple[Item, Values]]:
    """Yield rows that a write is applied to, and its values: one for each alternative that its condition has."""
    told, values = as_told(write), Values(write)
    row: Item = {}
    for negated, name, operator, operand, there, path in COMPARED.findall(told["IF"]):
        if there:
            is_list = f"{path}[" in told.get("SET", "")
            is_there: Item = {"L": []} if is_list else {"S": "there"}
            row.setdefault(path, is_there if there == "exists" else None)
        elif negated:
            row[name] = {"N": "201"}
        elif operator == "IN":
            row.setdefault(name, {"N": operand[1:].partition(",")[0].rstrip(")")})
        elif operator == "=" or (name, operator) == ("v", "<="):
            row.setdefault(name, values.typed(operand))
        elif operator == ">":
            row.setdefault(name, {"N": "9"})
        else:
            row.setdefault(name, next({kind: LOWER[kind]} for kind in values.typed(operand)))
    operands = {"attempt": "1", "fence": "4", "saves": "2", "blockers": "2"}
    for name in re.findall(r"[\w#]+", told.get("REMOVE", "")):
        row.setdefault(name, {"S": "to be removed"})
    row = {name: {"N": number} for name, number in operands.items()} | {"unfinished": {"L": [{"N": "1"}]}} | row
    yield filled(row), values
    if "(status = 201 AND lock_expire_time" in told["IF"]:
        yield filled(row | {"status": {"N": "201"}}), Values(write, seen_status="201")
    if "attribute_not_exists(round)" in told["IF"]:
        yield filled(row | {"round": None, "creation": values.typed(":seen_round")}), values


def compared_in(write: PreparedWrite) -> dict[str, list[str]]:
    """Return the attributes in the condition of a write, each with what it is compared to."""
    compared: dict[str, list[str]] = {}
    for _, name, _, operand, _, path in COMPARED.findall(as_told(write)["IF"]):
        compared.setdefault(name or path, []).extend([] if path or operand[0] == "(" else [operand])
    return compared


def filled(row: Item) -> Item:
    return {name: value for name, value in row.items() if value is not None}


def variants(base: Item, write: PreparedWrite, values: Values, *, thorough: bool) -> Iterator[tuple[str, Item | None]]:
    """Yield rows that differ from the base in one attribute of the write, by the name of that attribute."""
    told, compared = as_told(write), compared_in(write)
    for name, operands in compared.items():
        equal = [values.typed(operand) for operand in operands]
        kind = next((kind for each in equal for kind in each), "S")
        codes = [{"N": code} for code in CODES if name == "status"]
        odd = [{"NULL": True}, {"N": "5"} if kind == "S" else {"S": "5"}] if thorough else []
        for value in (None, *odd, *(codes or [{kind: LOWER[kind]}, {kind: HIGHER[kind]}, *equal])):
            if value != base.get(name):
                whole, _, entry = name.partition(".")
                yield name, filled(base | {whole: ({"M": filled({entry: value})} if entry else value)})
    for name in re.findall(r"([\w#]+)(?: [+-] |\[)", told.get("SET", "")):
        yield "", filled(base | {name: None})
        yield "", filled(base | {name: {"BOOL": True}})
    yield "", {name: value for name, value in base.items() if name in compared}
    if "SET" in told:  # the DELETE of a row that is not there succeeds
        yield "", None


@pytest.mark.parametrize("name", WRITES)
def test_a_write_of_the_protocol_does_the_same_as_a_statement(rows: Rows, name: str) -> None:
    write, refused = WRITES[name], set[str]()
    operation = "UpdateItem" if "SET" in as_told(write) else "DeleteItem"
    for start, values in starts(write):
        attributes, tried = zip(("", start), *variants(start, write, values, thorough=name in THOROUGH), strict=True)

        told, different = differences(rows, operation, tried, partial(write.request, values=values))

        assert different == []
        assert told[0][0] == "done"
        refused |= {each for each, (kind, _) in zip(attributes, told, strict=True) if kind == "refused"}
    assert refused - {""} == set(compared_in(write)), "each guard refuses some row, all else being equal"


@pytest.mark.parametrize("name", sorted(ALONE))
def test_what_no_statement_expresses_is_sent_alone(name: str) -> None:
    write = (writes_of_ship() | writes_of_deliver())[name]
    request = {"TableName": "statements", **write.request(key("o"), Values(write))}
    assert partiql.statement("UpdateItem", request) is None


@pytest.mark.parametrize("name", ["send last", "send late"])
def test_an_answer_to_a_task_that_waits_for_nothing_else_does_the_same_as_a_statement(rows: Rows, name: str) -> None:
    write = writes_of_ship()[name]
    never = {"S": stamp(NEVER)}
    row = {"status": {"N": "200"}, "awaited_signals": {"SS": ["paid"]}, "signals": {"M": {}}, "update_time": {"S": "a"}}
    row |= {"creation": {"S": ""}, "v": {"N": "1"}}
    parked = {**row, "due_time": never, "wait_until": {"S": "x"}}
    limited = {**row, "due_time": {"S": "x"}, "wait_until": {"S": "x"}}
    started = {**parked, "status": {"N": "201"}}
    others: list[Item] = [
        {**limited, "awaited_signals": {"SS": ["paid", "packed"]}},
        {**limited, "blockers": {"N": "1"}},
        {**limited, "signals": {"M": {"paid": {"S": "before"}}}},
        {**limited, "round": {"S": "z"}},
        {**limited, "v": {"N": "9"}},
        {**started, "due_time": {"S": "y"}},
    ]
    values = {**Values(write), "own paid": {"value": {"S": "5"}}}
    told, different = differences(
        rows, "UpdateItem", [parked, limited, started, *others], partial(write.request, values=values)
    )
    assert different == []
    done = ["done", "done", "refused"] if name == "send last" else ["refused", "refused", "done"]
    assert [kind for kind, _ in told][:3] == done
    assert {kind for kind, _ in told[3:-1]} == {"refused"}


NAMES = (
    *("a.b", "select", "x-y", 'a"b', "a'b", "?", "SET a = ?", "a, b", "a IN (b)", "attribute_exists (a)", " "),
    *("\\", "--", "\0", "RETURNING ALL OLD *", "näme", "😀", "count", "value"),
)
"""Attribute names that mean something else in a statement unless they are quoted well."""
ODD: tuple[Item, ...] = (
    {"S": ""},
    {"S": 'it\'s "?" \0 😀'},
    {"N": "-0.1E-129"},
    {"N": "12345678901234567890123456789"},
    {"N": "9" * 38},
)
ODD += ({"B": b""}, {"B": b"\0\xff"}, {"NULL": True}, {"BOOL": False}, {"L": []}, {"M": {}}, {"M": {" ": {"S": ""}}})
ODD += ({"SS": ["", "b", "a"]}, {"NS": ["2", "1.50", "-1"]}, {"BS": [b"\xff", b""]}, {"S": "x" * 100_000})
ODD += ({"L": [{"NULL": True}, {"M": {'a"b': {"L": [{"SS": ["?"]}]}, "a.b": {"N": "1e2"}}}, {"B": b"b"}]},)


def changes(number: int) -> Changes:
    """Return what a block sets or removes: every odd name, with each value in its turn."""
    values = [*ODD, None, None, None]
    return {
        f"own_{at}": (UnicodeAttribute(attr_name=name), values[(number + at) % len(values)])
        for at, name in enumerate(NAMES)
    }


def test_whatever_a_block_sets_and_removes_is_stored_as_it_is_alone(rows: Rows) -> None:
    statements = StepStatements(Order, Order.ship._definition.codes, 3)
    claim = claim_of(statements)
    row, values = next(starts(rendered(statements, build_success(Journal(claim), {}, ()))))
    held = {**{name: {"S": "before"} for name in NAMES}, **row}
    for number in (0, 7, 14):
        changed = changes(number)
        success = build_success(Journal(claim), changed, ())
        write, (_, parameters) = rendered(statements, success), success.shape_and_parameters()
        own = {name: value for name, value in parameters.items() if name.startswith("own ")}

        told, different = differences(
            rows,
            "UpdateItem",
            [held, {**held, "lock": {"S": "another"}}],
            partial(write.request, values={**values, **own}),
        )

        assert different == []
        assert [kind for kind, _ in told] == ["done", "refused"]


def test_a_put_stores_what_it_does_alone_and_never_replaces_an_item(rows: Rows) -> None:
    for number in (0, 7):
        item = {attribute.attr_name: value for attribute, value in changes(number).values() if value is not None}
        put = partial(put_once, item)

        assert differences(rows, "PutItem", [None], put) == ([("done", None)], [])

        kept = {"data": {"S": "before"}}
        told, different = differences(rows, "PutItem", [kept], put)
        assert told == [("refused", kept)]
        assert different == [f"{kept}: {(('refused', kept), kept)} alone, {(('refused', None), kept)} in a batch"]


def put_once(item: Item, its_key: Item) -> Item:
    return {
        "ConditionExpression": "attribute_not_exists (task_id)",
        "Item": {**its_key, **item},
    }


@pytest.mark.parametrize("name", ["#a", ":a", "x" * 8_000])
def test_what_no_statement_can_name_is_not_translated(name: str) -> None:
    writes = StepStatements(Order, Order.ship._definition.codes, 3)
    changed: Changes = {"own": (UnicodeAttribute(attr_name=name), {"S": "x"})}
    saved = writes.as_action(writes.save("t", 1, changed), "o")["Update"]
    assert partiql.statement("UpdateItem", {**saved, "TableName": "statements"}) is None
    assert partiql.statement("PutItem", {"TableName": "statements", **put_once({name: {"S": "x"}}, key("o"))}) is None
