"""Keys of another name or type."""

import pytest

from pynamodb_tracker import ConcurrencyLimit, Task, ValueNotStorableError
from pynamodb_tracker.doctor import Severity, settings
from tests.doctor.shops import Parcel
from tests.doctor.tables import by_hand, make, one, worse
from tests.support.engines import is_moto


@pytest.mark.parametrize(
    ("names", "types", "subject", "found", "expected"),
    [
        (["task_id", "use_case_id"], {"task_id": "N"}, "hash key", "task_id (N)", "task_id (S)"),
        (["task_id", "use_case_id"], {"use_case_id": "B"}, "range key", "use_case_id (B)", "use_case_id (S)"),
        (["id", "use_case_id"], {"id": "S", "task_id": None}, "hash key", "id (S)", "task_id (S)"),
        (["task_id"], {"use_case_id": None}, "range key", "none", "use_case_id (S)"),
    ],
)
def test_a_key_of_the_table_that_is_another_one_is_wrong(  # noqa: PLR0917 - columns of the table above
    shop: type[Task], names: list[str], types: dict[str, str | None], subject: str, found: str, expected: str
) -> None:
    table = by_hand()
    table["KeySchema"] = names
    definitions = table["AttributeDefinitions"] | types
    table["AttributeDefinitions"] = {name: kind for name, kind in definitions.items() if kind}
    make(shop, table)
    (finding,) = worse(shop)
    assert (finding.severity, finding.subject, finding.found, finding.expected) == (
        Severity.WRONG,
        subject,
        found,
        expected,
    )
    assert "ShopTask.Meta" in finding.to_do


def test_no_item_of_a_table_with_other_keys_is_read(shop: type[Task], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Parcel.use_case_id, "pausable", True)
    monkeypatch.setattr(settings, "limits_of", lambda _: [ConcurrencyLimit("bank", 2)])
    table = by_hand() | {"KeySchema": ["task_id"]}
    del table["AttributeDefinitions"]["use_case_id"]
    make(shop, table)
    assert one(shop, "range key").found == "none"


@pytest.mark.parametrize(
    ("name", "kind", "found", "expected"),
    [
        ("status", "S", "S, as a key of by-me", "N, as ShopTask stores it"),
        ("weight", "S", "S, as a key of by-me", "N, as Parcel stores it"),
    ],
)
def test_a_further_index_by_an_attribute_of_another_type_is_wrong(
    shop: type[Task], name: str, kind: str, found: str, expected: str
) -> None:
    table = by_hand()
    table["AttributeDefinitions"][name] = kind
    table["GlobalSecondaryIndexes"]["by-me"] = ([name], {"ProjectionType": "KEYS_ONLY"})
    make(shop, table)
    (finding,) = worse(shop)
    assert (finding.severity, finding.subject) == (Severity.WRONG, f"attribute {name}")
    assert (finding.found, finding.expected) == (found, expected)


def test_a_further_index_by_an_attribute_of_another_type_has_writes_refused(shop: type[Task]) -> None:
    if is_moto(shop):
        pytest.skip("moto does not always look at the type of a number")
    table = by_hand()
    table["AttributeDefinitions"]["status"] = "S"
    table["GlobalSecondaryIndexes"]["by-me"] = (["status"], {"ProjectionType": "KEYS_ONLY"})
    make(shop, table)
    with pytest.raises(ValueNotStorableError, match="ismatch"):
        Parcel.create("p-1", weight=1)


def test_the_type_of_a_key_of_several_indexes_is_reported_once(shop: type[Task]) -> None:
    table = by_hand()
    table["AttributeDefinitions"]["status"] = "S"
    for index in ("by-me", "by-you"):
        table["GlobalSecondaryIndexes"][index] = (["status"], {"ProjectionType": "KEYS_ONLY"})
    make(shop, table)
    assert one(shop, "attribute status").found == "S, as a key of by-me and by-you"


def test_a_further_index_has_the_type_wrong_also_where_the_index_of_the_model_is_missing(shop: type[Task]) -> None:
    table = by_hand()
    table["AttributeDefinitions"]["due_time"] = "N"
    _, projection = table["GlobalSecondaryIndexes"].pop("status-index")
    table["GlobalSecondaryIndexes"]["states"] = (["status_key", "due_time"], projection)
    make(shop, table)
    assert [finding.subject for finding in worse(shop)] == ["attribute due_time", "index status-index"]
