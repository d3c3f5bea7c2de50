"""No region, no credentials, nobody at the endpoint: short errors that name the table, and what to set."""

import socket
import traceback
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from pynamodb.exceptions import GetError, PynamoDBConnectionError, QueryError, UpdateError

from pynamodb_tracker import Step, Task, UseCase
from pynamodb_tracker.dynamodb.connection import missing_table
from pynamodb_tracker.dynamodb.error_codes import advise


class FarTask(Task):
    class Meta:
        table_name = "far"
        max_retry_attempts = 0


class Order(FarTask):
    use_case_id = UseCase("order")

    ship = Step(10)


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Have no region and no credentials, until the test sets some."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    FarTask.tracker.table.reconnect()
    yield monkeypatch
    FarTask.tracker.table.reconnect()


def check(message: str) -> None:
    """Read, write and search; each has PynamoDB's own error, with this message and few lines of the SDK."""
    operations: list[tuple[type[PynamoDBConnectionError], Any]] = [
        (GetError, lambda: Order.get_task("o-1")),
        (UpdateError, lambda: Order.ship.run("o-1", print)),
        (QueryError, lambda: Order.ship.run_all(print)),
    ]
    for kind, operation in operations:
        with pytest.raises(kind) as caught:
            operation()
        assert str(caught.value).partition(": ")[2] == message
        frames = traceback.extract_tb((caught.value.__cause__ or caught.value).__traceback__)
        assert not [frame for frame in frames if "botocore" in frame.filename]
        assert "urllib3" not in "".join(traceback.format_exception(caught.value))


def test_without_a_region_errors_say_where_to_set_it() -> None:
    check("table far: no region: set it in the Meta of the table's class, or set AWS_DEFAULT_REGION")


def test_an_error_of_other_settings_names_the_table(settings: pytest.MonkeyPatch) -> None:
    settings.setenv("AWS_DEFAULT_REGION", "us-east-1")
    settings.setenv("AWS_PROFILE", "other")
    check("table far: The config profile (other) could not be found")


@pytest.mark.parametrize(("code", "text"), [("AccessDeniedException", "not allowed"), ("ThrottlingException", "slow")])
def test_an_answer_about_rights_or_load_is_not_taken_for_one_about_keys(code: str, text: str) -> None:
    message = f"{text}: table/backfilling-orders"
    error = ClientError({"Error": {"Code": code, "Message": message}}, "Query")
    assert (advise(error, "table backfilling-orders"), error.response["Error"]["Message"]) == (False, message)


def test_without_credentials_errors_say_how_to_give_them(settings: pytest.MonkeyPatch) -> None:
    settings.setenv("AWS_DEFAULT_REGION", "us-east-1")
    check(
        "table far at https://dynamodb.us-east-1.amazonaws.com: no credentials: set AWS_PROFILE, or AWS_ACCESS_KEY_ID "
        "and AWS_SECRET_ACCESS_KEY"
    )


def test_where_nobody_answers_errors_say_why_and_what_decides_the_endpoint(settings: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        host = f"http://127.0.0.1:{free.getsockname()[1]}"
    settings.setenv("AWS_ACCESS_KEY_ID", "some")
    settings.setenv("AWS_SECRET_ACCESS_KEY", "some")
    settings.setattr(FarTask.Meta, "region", "us-east-1", raising=False)
    settings.setattr(FarTask.Meta, "host", host, raising=False)
    check(
        f"table far at {host}: cannot connect (Connection refused): check host and region in its Meta, "
        "AWS_ENDPOINT_URL, and the network"
    )


@pytest.mark.skipif(
    "account_id_endpoint_mode" not in Config.OPTION_DEFAULTS, reason="this botocore knows no endpoints of accounts"
)
def test_a_missing_table_is_one_of_the_accounts_endpoint(settings: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        settings.setenv(name, "some")
    settings.setenv("AWS_ACCOUNT_ID", "123456789012")
    settings.setattr(FarTask.Meta, "region", "eu-west-1", raising=False)
    text = str(missing_table(Order.tracker.connection(), None))
    assert "does not exist in eu-west-1 (https://123456789012.ddb.eu-west-1.amazonaws.com)" in text
