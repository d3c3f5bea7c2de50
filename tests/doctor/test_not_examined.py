"""Tables that cannot be examined: why, on one line."""

from collections.abc import Iterator

import pytest

from pynamodb_tracker import Task
from pynamodb_tracker.doctor import NotExaminedError, examine
from tests.doctor.shops import FarTask
from tests.doctor.tables import answering, client


@pytest.fixture
def unreachable(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Have no region, no access keys and no server, until the test sets some."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    FarTask.tracker.table.reconnect()
    yield monkeypatch
    FarTask.tracker.table.reconnect()


def why(model: type[Task]) -> str:
    with pytest.raises(NotExaminedError) as caught:
        examine(model)
    said = str(caught.value)
    assert "\n" not in said
    return said


def test_a_missing_table_is_reported_with_how_to_create_it(shop: type[Task]) -> None:
    client(shop).delete_table(TableName=shop.Meta.table_name)
    endpoint, name = client(shop).meta.endpoint_url, shop.Meta.table_name
    assert why(shop) == (
        f"table {name!r} at {endpoint} does not exist: create it with ShopTask.create_table(wait=True), or use the "
        "region and the credentials of the account that has it"
    )
    shop.create_table(wait=True)


def test_a_refusal_to_describe_the_table_is_reported(described: type[Task]) -> None:
    with answering(described, table="AccessDeniedException"):
        assert why(described).endswith("amazonaws.com: AccessDeniedException: this is why")


@pytest.mark.usefixtures("unreachable")
def test_a_missing_region_is_reported_with_where_to_set_it() -> None:
    assert why(FarTask) == "table 'far': no region: set it in the Meta of the table's class, or set AWS_DEFAULT_REGION"


def test_missing_access_keys_are_reported(unreachable: pytest.MonkeyPatch) -> None:
    unreachable.setenv("AWS_DEFAULT_REGION", "us-east-1")
    assert why(FarTask) == (
        "table 'far' at https://dynamodb.us-east-1.amazonaws.com: no credentials: set AWS_PROFILE, or "
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    )


@pytest.mark.parametrize(
    ("host", "words"),
    [("http://127.0.0.1:9", "table 'far' at http://127.0.0.1:9: cannot connect"), ("localhost", "Invalid endpoint")],
)
def test_a_server_that_does_not_answer_is_reported(unreachable: pytest.MonkeyPatch, host: str, words: str) -> None:
    unreachable.setattr(FarTask.Meta, "host", host, raising=False)
    unreachable.setattr(FarTask.Meta, "region", "us-east-1", raising=False)
    unreachable.setattr(FarTask.Meta, "max_retry_attempts", 0, raising=False)
    unreachable.setenv("AWS_ACCESS_KEY_ID", "some")
    unreachable.setenv("AWS_SECRET_ACCESS_KEY", "some")
    assert words in why(FarTask)
