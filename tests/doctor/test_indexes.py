"""Indexes of the model that are missing, not ready, by other keys, or with another projection."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from botocore.stub import Stubber
from pynamodb.exceptions import PutError, PynamoDBException, QueryError

from pynamodb_tracker import Task
from pynamodb_tracker.doctor import Severity
from tests.doctor.shops import Parcel
from tests.doctor.tables import PROJECTED, answering, by_hand, client, make, one, projecting, subjects, there, worse
from tests.support.engines import is_moto


def test_a_missing_status_index_is_wrong_queries_fail_and_runs_do_not(shop: type[Task]) -> None:
    table = by_hand()
    del table["GlobalSecondaryIndexes"]["status-index"]
    del table["AttributeDefinitions"]["status_key"], table["AttributeDefinitions"]["due_time"]
    make(shop, table)
    (finding,) = worse(shop)
    assert (finding.severity, finding.subject, finding.found) == (Severity.WRONG, "index status-index", "none")
    assert finding.expected == (
        f"hash key status_key (S), range key due_time (S), projection INCLUDE {', '.join(PROJECTED)}"
    )
    assert finding.to_do.startswith("Add it")
    assert "query, page, count, counts, due and run_all fail, but start and run still work" in finding.meaning
    Parcel.create("p-1")
    Parcel.ship.run("p-1", lambda _: None)
    with pytest.raises(QueryError):
        Parcel.ship.succeeded.count()


def test_a_missing_index_that_the_user_declared_is_wrong(shop: type[Task]) -> None:
    table = by_hand()
    del table["GlobalSecondaryIndexes"]["by-customer"], table["AttributeDefinitions"]["customer"]
    make(shop, table)
    (finding,) = worse(shop)
    assert (finding.severity, finding.subject) == (Severity.WRONG, "index by-customer")
    assert "queries of it fail" in finding.meaning


def test_a_missing_local_index_is_wrong(local: type[Task]) -> None:
    table = by_hand()
    del table["GlobalSecondaryIndexes"]["by-customer"], table["AttributeDefinitions"]["customer"]
    make(local, table)
    (finding,) = worse(local)
    assert finding.subject == "index by-worker"
    assert finding.expected == "hash key task_id (S), range key worker (S), projection ALL"
    assert finding.to_do.startswith("A local index can only be created with its table: give LocalTask.Meta another")


def test_an_index_by_another_key_is_wrong_and_finds_nothing(shop: type[Task]) -> None:
    table = by_hand()
    table["AttributeDefinitions"]["state"] = table["AttributeDefinitions"].pop("status_key")
    table["GlobalSecondaryIndexes"]["status-index"][0][0] = "state"
    make(shop, table)
    (finding,) = worse(shop)
    assert (finding.severity, finding.subject) == (Severity.WRONG, "hash key of status-index")
    assert (finding.found, finding.expected) == ("state (S)", "status_key (S)")
    assert finding.meaning.startswith("Query, page, count, counts, due and run_all fail.")
    Parcel.create("p-1")
    with pytest.raises(QueryError):
        Parcel.ship.pending.count()


def test_an_index_by_a_key_of_another_type_is_wrong(shop: type[Task]) -> None:
    table = by_hand()
    table["AttributeDefinitions"]["due_time"] = "N"
    make(shop, table)
    (finding,) = worse(shop)
    assert (finding.severity, finding.subject) == (Severity.WRONG, "range key of status-index")
    assert (finding.found, finding.expected) == ("due_time (N)", "due_time (S)")
    assert finding.meaning.startswith("DynamoDB refuses every write")


def test_an_index_by_a_key_of_another_type_has_writes_refused(shop: type[Task]) -> None:
    if is_moto(shop):
        pytest.skip("moto does not look at the type of the range key of an index")
    table = by_hand()
    table["AttributeDefinitions"]["due_time"] = "N"
    make(shop, table)
    with pytest.raises(PutError, match="ismatch"):
        Parcel.create("p-1")


def test_an_index_without_a_range_key_is_wrong(shop: type[Task]) -> None:
    table = by_hand()
    del table["AttributeDefinitions"]["due_time"]
    del table["GlobalSecondaryIndexes"]["status-index"][0][1]
    make(shop, table)
    (finding,) = worse(shop)
    assert (finding.subject, finding.found) == ("range key of status-index", "none")


def test_an_index_by_several_attributes_is_wrong(described: type[Task]) -> None:
    (other, ours) = sorted(there(described)["GlobalSecondaryIndexes"], key=lambda index: str(index["IndexName"]))
    ours["KeySchema"].append({"AttributeName": "use_case_id", "KeyType": "RANGE"})
    with answering(described, table={"GlobalSecondaryIndexes": [other, ours]}):
        (finding,) = worse(described)
    assert (finding.subject, finding.found) == ("range key of status-index", "due_time (S) and use_case_id (S)")


def test_a_projection_without_status_is_wrong_and_queries_fail(shop: type[Task]) -> None:
    make(shop, projecting("attempt", "create_time", "update_time", "last_error"))
    (finding,) = worse(shop)
    assert (finding.severity, finding.subject) == (Severity.WRONG, "projection of status-index")
    assert finding.found == "INCLUDE attempt, create_time, update_time, last_error"
    assert finding.expected == f"INCLUDE {', '.join(PROJECTED)}"
    assert "Without status, query, page, due and run_all fail" in finding.meaning
    assert "update_time" not in finding.meaning
    Parcel.create("p-1")
    with pytest.raises(KeyError):
        list(Parcel.ship.pending.query())


def test_a_projection_without_update_time_is_wrong(shop: type[Task]) -> None:
    make(shop, projecting("status", "attempt", "create_time", "last_error"))
    (finding,) = worse(shop)
    assert (finding.severity, finding.subject) == (Severity.WRONG, "projection of status-index")
    assert "Without update_time, counts fails, and so do query, page and count with since" in finding.meaning


SINCE = datetime(2026, 1, 1, tzinfo=UTC)
INVALID = "One or more parameter values were invalid: "
OPERATIONS: dict[str, Callable[[], object]] = {
    "put_item": lambda: Parcel.create("p-1"),
    "query": lambda: list(Parcel.ship.pending.query()),
    "query since": lambda: list(Parcel.ship.pending.query(since=SINCE)),
    "query of a count": lambda: Parcel.ship.pending.count(since=SINCE),
    "scan": Parcel.counts,
}


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ("put_item", INVALID + "Type mismatch for Index Key due_time Expected: N Actual: S IndexName: status-index"),
        ("query", "Query condition missed key schema element: state"),
        ("query", "The number of query conditions (2) exceeds the number of key attributes defined in the schema (1)"),
        ("query", INVALID + "Condition parameter type does not match schema type"),
        *(
            (
                each,
                INVALID + "Secondary index status-index does not project one or more filter attributes: [update_time]",
            )
            for each in ("query since", "query of a count", "scan")
        ),
    ],
)
def test_each_way_in_which_dynamodb_refuses_an_index_that_differs_leads_to_the_doctor(
    described: type[Task], operation: str, message: str
) -> None:
    """The tests of dynoxide 3.2.0 have these messages, as captured from DynamoDB."""
    with Stubber(client(described)) as stub:
        stub.add_client_error(operation.split(maxsplit=1)[0], "ValidationException", message)
        with pytest.raises(PynamoDBException) as refusal:
            OPERATIONS[operation]()
        stub.assert_no_pending_responses()
    assert message in str(refusal.value)
    assert "does not match its class: run pynamodb-tracker doctor to see the differences" in str(refusal.value)


def test_a_projection_without_attributes_that_the_tracker_does_not_read_is_advice(shop: type[Task]) -> None:
    make(shop, projecting("status", "update_time", "create_time"))
    finding = one(shop, "projection of status-index")
    assert finding.severity is Severity.ADVICE
    assert "does not find attempt, last_error" in finding.meaning
    Parcel.create("p-1")
    assert Parcel.ship.run_all(lambda _: None).succeeded == ["p-1"]


def test_a_projection_of_keys_alone_lacks_all_of_it(shop: type[Task]) -> None:
    table = by_hand()
    table["GlobalSecondaryIndexes"]["status-index"] = (["status_key", "due_time"], {"ProjectionType": "KEYS_ONLY"})
    make(shop, table)
    (finding,) = worse(shop)
    assert (finding.severity, finding.found) == (Severity.WRONG, "KEYS_ONLY")
    for name in PROJECTED:
        assert name in finding.meaning


def test_a_projection_of_everything_is_reported_with_what_it_costs(shop: type[Task]) -> None:
    table = by_hand()
    table["GlobalSecondaryIndexes"]["status-index"] = (["status_key", "due_time"], {"ProjectionType": "ALL"})
    make(shop, table)
    finding = one(shop, "projection of status-index")
    assert (finding.severity, finding.found) == (Severity.ADVICE, "ALL")
    assert "160 write units instead of 65" in finding.meaning


def test_a_projection_of_more_is_reported_with_the_additional_attributes(shop: type[Task]) -> None:
    make(shop, projecting(*PROJECTED, "data"))
    finding = one(shop, "projection of status-index")
    assert finding.severity is Severity.ADVICE
    assert finding.meaning.startswith("It also has data, which makes every write to the index more expensive.")


def test_a_projection_in_another_order_is_the_same(shop: type[Task]) -> None:
    make(shop, projecting(*reversed(PROJECTED)))
    assert "projection of status-index" not in subjects(shop)


@pytest.mark.parametrize(
    ("projection", "severity", "words"),
    [
        ({"ProjectionType": "KEYS_ONLY"}, Severity.WRONG, "does not find amount"),
        ({"ProjectionType": "ALL"}, Severity.ADVICE, "also has the whole row"),
    ],
)
def test_the_projection_of_an_index_that_the_user_declared_is_compared_too(
    shop: type[Task], projection: dict[str, str], severity: Severity, words: str
) -> None:
    table = by_hand()
    table["GlobalSecondaryIndexes"]["by-customer"] = (["customer"], projection)
    make(shop, table)
    finding = one(shop, "projection of by-customer")
    assert finding.severity is severity
    assert words in finding.meaning


def test_an_index_that_lacks_a_part_of_the_whole_row_is_wrong(local: type[Task]) -> None:
    (index,) = there(local)["LocalSecondaryIndexes"]
    index["Projection"] = {"ProjectionType": "KEYS_ONLY"}
    with answering(local, table={"LocalSecondaryIndexes": [index]}):
        (finding,) = worse(local)
    assert (finding.subject, finding.found, finding.expected) == ("projection of by-worker", "KEYS_ONLY", "ALL")


@pytest.mark.parametrize(("state", "words"), [("CREATING", "Wait"), ("DELETING", "Create it again")])
def test_an_index_that_cannot_be_read_is_wrong(described: type[Task], state: str, words: str) -> None:
    (other, ours) = sorted(there(described)["GlobalSecondaryIndexes"], key=lambda index: str(index["IndexName"]))
    ours["IndexStatus"] = state
    with answering(described, table={"GlobalSecondaryIndexes": [other, ours]}):
        (finding,) = worse(described)
    assert (finding.severity, finding.subject, finding.found) == (Severity.WRONG, "index status-index", state)
    assert words in finding.to_do


def test_an_index_whose_capacity_is_changed_can_be_read(described: type[Task]) -> None:
    indexes = [{**index, "IndexStatus": "UPDATING"} for index in there(described)["GlobalSecondaryIndexes"]]
    with answering(described, table={"GlobalSecondaryIndexes": indexes}):
        assert worse(described) == []
