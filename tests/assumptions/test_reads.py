"""Reads: pages, filters, indexes, and rows that come in several requests."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.assumptions.ledger import INDEX, Item, Table, code, dumps

BIG = "x" * 390_000


def test_a_consistent_read_has_the_last_write(table: Table) -> None:
    """AWS: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/HowItWorks.ReadConsistency.html."""
    key = table.put(fence=0)
    for fence in range(1, 4):
        table.update(key, "SET fence = :n", n=fence)
        assert table.read(key) == {"fence": fence}


def test_an_index_has_only_its_projection_and_is_never_read_consistently(table: Table) -> None:
    """Parity Suite: tier1/scan/gsi.

    "scans a GSI with INCLUDE projection and returns only projected attributes".
    Parity Suite: tier3/error-messages/indexReads, "ConsistentRead on GSI".
    AWS: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.html#GSI.Writes: it changes after the
    table, which no test can show.
    """
    key = table.put(st="projected", due="a", note="in", extra="not in")
    (entry,) = table.entries("projected", 1)
    assert ({name: {"S": entry[name]} for name in key}, entry.keys() - key.keys()) == (key, {"st", "due", "note"})
    assert code(lambda: table.query("projected", ConsistentRead=True)) == "ValidationException"


def test_a_row_without_one_of_its_keys_is_not_in_the_index(table: Table) -> None:
    """Parity Suite: tier1/query/gsi.

    "sparse composite GSI: an item with the GSI hash key but no range key is excluded".
    """
    table.put(st="sparse")
    key = table.put(st="sparse", due="a")
    assert len(table.entries("sparse", 1)) == 1
    table.update(key, "REMOVE st")
    assert table.entries("sparse", 0) == []


def test_entries_are_in_the_order_of_the_bytes_of_their_range_key(table: Table) -> None:
    """AWS: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_Query.html.

    In order of UTF-8 bytes.
    """
    for due in ("2026-01-02", "2026-01-01T10", "2026-01-01", "é", "z"):
        table.put(st="ordered", due=due)
    found = [entry["due"] for entry in table.entries("ordered", 5)]
    assert found == ["2026-01-01", "2026-01-01T10", "2026-01-02", "z", "é"]


def test_a_filter_drops_entries_after_the_limit_has_counted_them(table: Table) -> None:
    """Parity Suite: tier1/query/basic, "Limit applies to scanned items, not filtered items"."""
    for number in range(3):
        table.put(st="filtered", due=str(number), note="yes" if number == 2 else "no")
    assert len(table.entries("filtered", 3)) == 3
    options = {"Limit": 2, "FilterExpression": "note = :note", "values": {":note": "yes"}}
    first = table.query("filtered", **options)
    assert (first["Items"], first["ScannedCount"]) == ([], 2)
    second = table.query("filtered", **options, ExclusiveStartKey=first["LastEvaluatedKey"])
    assert (len(second["Items"]), "LastEvaluatedKey" in second) == (1, False)


def test_a_query_goes_on_behind_an_entry_that_is_gone(table: Table) -> None:
    """Parity Suite: tier1/query/basic.

    "does not repeat the item equal to ExclusiveStartKey".
    AWS: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_Query.html: ExclusiveStartKey is a key;
    nothing says that a row must have it.
    """
    keys = [table.put(st="gone", due=str(number)) for number in range(3)]
    assert len(table.entries("gone", 3)) == 3
    table.client.delete_item(TableName=table.name, Key=keys[1])
    assert len(table.entries("gone", 2)) == 2
    start = keys[1] | dumps({"st": "gone", "due": "1"})
    assert [item["due"]["S"] for item in table.query("gone", ExclusiveStartKey=start)["Items"]] == ["2"]


def test_a_page_has_at_most_1_mb(table: Table) -> None:
    """Parity Suite: tier3/limits/responseSize, "Query returns LastEvaluatedKey when response would exceed 1MB"."""
    for number in range(4):
        table.put(st="pages", due=str(number), note=BIG)
    assert [entry["due"] for entry in table.entries("pages", 4)] == ["0", "1", "2", "3"]
    first = table.query("pages")
    assert 1 < len(first["Items"]) < 4
    assert "LastEvaluatedKey" in first


def test_a_scan_returns_the_rows_of_one_hash_key_in_a_row(table: Table) -> None:
    """AWS: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/HowItWorks.CoreComponents.html.

    Rows with the same partition key are stored together, in the order of the sort key.
    """
    for part in ("b", "a", "c"):
        for name in ("together-1", "together-2"):
            table.client.put_item(TableName=table.name, Item=dumps({"id": name, "part": part}))
    pages = table.client.get_paginator("scan").paginate(TableName=table.name, ConsistentRead=True)
    found = [item["id"]["S"] + item["part"]["S"] for page in pages for item in page["Items"]]
    at = found.index("together-1a")
    assert found[at : at + 3] == ["together-1a", "together-1b", "together-1c"]


def test_segments_of_a_scan_have_each_entry_once(table: Table) -> None:
    """Parity Suite: tier1/scan/parallel, "union of all segments equals full table scan"."""
    for number in range(8):
        table.put(st=f"segment-{number}", due="a")
    assert all(len(table.entries(f"segment-{number}", 1)) == 1 for number in range(8))
    scan = table.client.get_paginator("scan")
    found: list[str] = []
    for segment in range(4):
        pages = scan.paginate(TableName=table.name, IndexName=INDEX, Segment=segment, TotalSegments=4)
        found += [item["st"]["S"] for page in pages for item in page["Items"]]
    assert sorted(each for each in found if each.startswith("segment-")) == [f"segment-{n}" for n in range(8)]


def batch_get(table: Table, keys: list[Item]) -> Item:
    """Read rows in one request."""
    return dict(table.client.batch_get_item(RequestItems={table.name: {"Keys": keys, "ConsistentRead": True}}))


def test_a_batch_reads_up_to_100_rows_and_leaves_out_those_that_do_not_exist(table: Table) -> None:
    """Parity Suite: tier1/batchGetItem/basic.

    "handles a mix of existing and non-existing keys".
    Parity Suite: tier3/limits/batchLimits, "BatchGetItem with 101 keys fails with ValidationException".
    """
    keys = [table.key() for _ in range(100)] + [table.put(note="x")]
    assert code(lambda: batch_get(table, keys)) == "ValidationException"
    answer = batch_get(table, keys[1:])
    assert [item["note"]["S"] for item in answer["Responses"][table.name]] == ["x"]
    assert answer["UnprocessedKeys"] == {}


def test_a_batch_reads_no_row_twice(table: Table) -> None:
    """Parity Suite: tier1/batchGetItem/validation, "rejects duplicate keys in the same batch"."""
    key = table.put()
    assert code(lambda: batch_get(table, [key, key])) == "ValidationException"


def test_a_batch_that_is_too_large_names_the_rows_that_it_has_left_out(table: Table) -> None:
    """AWS: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html.

    Up to 16 MB; UnprocessedKeys has the rest.
    """
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda _: table.put(note=BIG), range(44)))
    answer = batch_get(table, keys)
    found = answer["Responses"][table.name]
    left = answer["UnprocessedKeys"][table.name]["Keys"]
    assert 0 < len(found) < len(keys)
    assert len(found) + len(left) == len(keys)


@pytest.mark.parametrize("index", [None, INDEX])
def test_a_query_that_finds_nothing_has_no_next_page(table: Table, index: str | None) -> None:
    """Parity Suite: tier1/query/basic, "returns empty results for a non-existent partition key"."""
    key = "st" if index else "id"
    answer = table.client.query(
        TableName=table.name,
        **({"IndexName": index} if index else {}),
        KeyConditionExpression=f"{key} = :x",
        ExpressionAttributeValues=dumps({":x": "nowhere"}),
    )
    assert (answer["Items"], "LastEvaluatedKey" in answer) == ([], False)
