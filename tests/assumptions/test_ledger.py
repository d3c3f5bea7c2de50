"""The ledger itself: sources, the list for users, and the way to AWS, which is tested without an account."""

import importlib
import inspect
import os
import re
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from tests import conftest
from tests.assumptions.ledger import MOTO_DIFFERS, client_of_aws, new_table
from tests.engine.engine import AWS, VARIABLE

ROOT = Path(__file__).parents[2]
MODULES = sorted(path.stem for path in Path(__file__).parent.glob("test_*.py") if path.stem != "test_ledger")
ASSUMPTIONS = {
    name: test
    for module in MODULES
    for name, test in inspect.getmembers(importlib.import_module(f"tests.assumptions.{module}"), inspect.isfunction)
    if name.startswith("test_")
}
SOURCE = re.compile(r"^(AWS: https://docs\.aws\.amazon\.com/|Parity Suite: tier\d/|Source: tests/\w+\.rs of dynoxide)")


class Config:
    """Pytest's configuration, with this option alone."""

    def __init__(self, *, assumptions: bool) -> None:
        self._assumptions = assumptions

    def getoption(self, name: str) -> bool:
        """Return the value of the option."""
        return self._assumptions and name == "assumptions"


@pytest.mark.parametrize("name", ASSUMPTIONS)
def test_an_assumption_begins_with_its_source(name: str) -> None:
    assert SOURCE.match(inspect.getdoc(ASSUMPTIONS[name]) or "")


def test_the_page_lists_what_moto_does_differently() -> None:
    page = (ROOT / "docs/reference/testing.md").read_text()
    _, _, section = page.partition("\n## What moto does differently\n")
    listed = re.findall(r"^- (.*?)(?=\n(?:- |\n))", section.partition("\n## ")[0], re.MULTILINE | re.DOTALL)
    assert sorted(" ".join(each.split()) for each in listed) == sorted(set(MOTO_DIFFERS.values()))


def test_the_client_of_aws_has_the_users_region_and_no_other_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "mine")
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:1")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    client = client_of_aws()
    assert client.meta.endpoint_url == "https://dynamodb.eu-central-1.amazonaws.com"
    assert client._request_signer._credentials.access_key == "mine"
    client.close()


def test_make_assumptions_keeps_the_users_settings_for_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conftest, "leave_requests_out", lambda: None)  # once is enough
    mine = {"AWS_ACCESS_KEY_ID": "mine", "AWS_PROFILE": "test", "AWS_DEFAULT_REGION": "eu-central-1"}
    for name, value in {**mine, VARIABLE: AWS}.items():
        monkeypatch.setenv(name, value)
    config: Any = Config(assumptions=True)
    conftest.pytest_configure(config)
    assert {name: os.environ.get(name) for name in mine} == mine


def test_other_tests_refuse_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, AWS)
    config: Any = Config(assumptions=False)
    with pytest.raises(pytest.UsageError, match=r"=aws is for `make assumptions` only"):
        conftest.pytest_configure(config)


@pytest.mark.parametrize("failure", [AssertionError, KeyboardInterrupt])
def test_the_table_is_deleted_after_a_failure(failure: type[BaseException]) -> None:
    def fail() -> None:
        with new_table(boto3.client("dynamodb")) as table:
            table.put(note="left behind")
            raise failure

    with mock_aws():
        with pytest.raises(failure):
            fail()
        assert tables() == []


def test_the_table_is_deleted_if_it_does_not_become_ready() -> None:
    with mock_aws():
        client = boto3.client("dynamodb")
        client.update_time_to_live = client.get_waiter = never
        with pytest.raises(KeyboardInterrupt), new_table(client):
            pytest.fail("it is not ready")
        assert tables() == []


def test_an_error_of_the_creation_is_not_hidden_by_the_deletion() -> None:
    with mock_aws():
        client = boto3.client("dynamodb")
        client.create_table = never
        with pytest.raises(KeyboardInterrupt), new_table(client):
            pytest.fail("there is no table")


def never(*_: object, **__: object) -> Any:
    raise KeyboardInterrupt


def tables() -> list[str]:
    """Return the tables that are left."""
    client = boto3.client("dynamodb")
    names = list(client.list_tables()["TableNames"])
    client.close()
    return names
