"""Batches of statements: each member is a write of its own."""

from typing import Any

from pynamodb_tracker.dynamodb import partiql
from tests.assumptions.ledger import Item, Table, code, loads, moto_differs, own

WHERE = "WHERE id = ? AND part = ?"
NO_STATEMENTS = "Up to 25 PartiQL writes in one request are applied or refused one by one."


def update(key: Item, actions: str, *values: Any, condition: str = "fence = ?", seen: Any = 1) -> tuple[str, list[Any]]:
    """Return an UPDATE of a row under a condition."""
    return f"UPDATE TABLE {actions} {WHERE} AND {condition} RETURNING ALL NEW *", [*values, *key.values(), seen]


@moto_differs(NO_STATEMENTS)
def test_a_refused_member_leaves_the_others_applied_and_says_which_row_it_met(table: Table) -> None:
    """AWS: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchStatementError.html.

    `Item` is the row, if the member asks for ALL_OLD.
    AWS: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ql-reference.multiplestatements.batching.html.
    """
    first, second = table.put(fence=1), table.put(fence=7)
    done, refused = table.execute(update(first, "SET note = ?", "x"), update(second, "SET note = ?", "x"))
    assert own(done["Item"]) == {"fence": 1, "note": "x"}
    assert (refused["Error"]["Code"], own(refused["Error"]["Item"])) == ("ConditionalCheckFailed", {"fence": 7})
    assert table.read(second) == {"fence": 7}


@moto_differs(NO_STATEMENTS)
def test_a_sum_has_a_bare_name_and_reads_the_row_as_it_was(table: Table) -> None:
    """Source: tests/update_clauses_read_the_original_item.rs of dynoxide.

    It is about release 3.2.0, whose authors captured the answers from AWS, as those in
    tests/set_arithmetic_operands.rs.
    """
    key = table.put(fence=1, attempt=0, unfinished=[])
    actions = "SET fence = fence + ? SET attempt = attempt + ? SET unfinished[9999] = fence + ?"
    (done,) = table.execute(update(key, actions, 1, 1, 1))
    assert own(done["Item"]) == {"fence": 2, "attempt": 1, "unfinished": [2]}


@moto_differs(NO_STATEMENTS)
def test_an_update_of_a_row_that_does_not_exist_is_refused(table: Table) -> None:
    """Parity Suite: tier2/partiql/executeStatement.

    "UPDATE on a non-existent key fails ConditionalCheckFailed (PartiQL UPDATE is not an upsert)".
    """
    key = table.key()
    (refused,) = table.execute(update(key, "SET note = ?", "x", condition="(extra IS MISSING OR fence = ?)"))
    assert refused["Error"]["Code"] == "ConditionalCheckFailed"
    assert table.read(key) is None


@moto_differs(NO_STATEMENTS)
def test_a_test_of_a_missing_attribute_has_words_of_its_own(table: Table) -> None:
    """Parity Suite: tier2/partiql/executeStatement.

    "evaluates negated predicates (NOT begins_with, IS NOT MISSING)".
    """
    key = table.put(fence=1)
    condition = "(extra IS MISSING AND fence IS NOT MISSING AND (NOT fence IN [?, ?]))"
    text, parameters = update(key, "SET note = ?", "x", condition=condition, seen=2)
    (done,) = table.execute((text, [*parameters, 3]))
    assert own(done["Item"]) == {"fence": 1, "note": "x"}


@moto_differs(NO_STATEMENTS)
def test_an_insert_of_a_row_that_exists_is_a_duplicate(table: Table) -> None:
    """Parity Suite: tier2/partiql/batchExecuteStatement.

    "carries TableName on a duplicate insert".
    AWS: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchStatementError.html.
    """
    key = table.put(note="first")
    (refused,) = table.execute(("INSERT INTO TABLE VALUE {'id': ?, 'part': ?, 'note': ?}", [*key.values(), "second"]))
    assert (refused["Error"]["Code"], "Item" in refused["Error"]) == ("DuplicateItem", False)
    assert table.read(key) == {"note": "first"}


@moto_differs(NO_STATEMENTS)
def test_a_delete_under_a_condition_is_refused_with_the_row(table: Table) -> None:
    """Parity Suite: tier2/partiql/executeStatement.

    "DELETE with a false non-key predicate fails ConditionalCheckFailed and leaves the item".
    AWS: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchStatementError.html.
    """
    key = table.put(fence=1)
    (refused,) = table.execute(("DELETE FROM TABLE WHERE id = ? AND part = ? AND fence = ?", [*key.values(), 2]))
    assert (refused["Error"]["Code"], own(refused["Error"]["Item"])) == ("ConditionalCheckFailed", {"fence": 1})


@moto_differs(NO_STATEMENTS)
def test_a_delete_returns_the_row_and_succeeds_where_there_is_none(table: Table) -> None:
    """Parity Suite: tier2/partiql/executeStatement.

    "DELETE on a missing key with a non-key predicate is a silent no-op" and "DELETE RETURNING ALL OLD * returns the
    deleted item".
    """
    text = "DELETE FROM TABLE WHERE id = ? AND part = ? AND fence = ? RETURNING ALL OLD *"
    key = table.put(fence=1)
    done, absent = table.execute((text, [*key.values(), 1]), (text, [*table.key().values(), 1]))
    assert loads(done["Item"]) == loads(key) | {"fence": 1}
    assert not {"Item", "Error"} & absent.keys()


@moto_differs(NO_STATEMENTS)
def test_a_statement_that_cannot_be_read_is_an_error_of_its_own(table: Table) -> None:
    """Parity Suite: tier2/partiql/batchExecuteStatement.

    "surfaces a malformed member statement as a per-statement ValidationError without failing the batch".
    """
    key = table.put(fence=1)
    done, wrong = table.execute(update(key, "SET note = ?", "x"), ("UPDATE nonsense", [*key.values()]))
    assert (own(done["Item"]), wrong["Error"]["Code"]) == ({"fence": 1, "note": "x"}, "ValidationError")


@moto_differs(NO_STATEMENTS)
def test_a_batch_has_at_most_25_members(table: Table) -> None:
    """AWS: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchExecuteStatement.html."""
    keys = [table.put(fence=1) for _ in range(26)]
    members = [update(key, "SET note = ?", "x") for key in keys]
    assert code(lambda: table.execute(*members)) == "ValidationException"
    assert all("Item" in each for each in table.execute(*members[:25]))


@moto_differs(NO_STATEMENTS)
def test_a_statement_may_have_nearly_8000_characters(table: Table) -> None:
    """AWS: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchStatementRequest.html.

    8,192 at most.
    """
    key = table.put(fence=1)
    clauses = [f'SET "an attribute with a very long name {number:03}" = ?' for number in range(160)]
    text, parameters = update(key, " ".join(clauses), *range(160))
    assert 7_500 < len(text.replace("TABLE", f'"{table.name}"')) <= partiql._LONGEST
    (done,) = table.execute((text, parameters))
    assert len(done["Item"]) == 160 + len(key) + 1
