"""The table of the assumptions: on moto and on dynoxide, or on AWS."""

from collections.abc import Iterator

import boto3
import pytest
from moto import mock_aws

from tests.assumptions.ledger import MOTO_DIFFERS, Table, client_of_aws, is_for_aws, new_table
from tests.engine.engine import AWS
from tests.support.engines import ENGINES, values


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each assumption on both engines, or on AWS alone."""
    if "table" in metafunc.fixturenames:
        ways = [(AWS,)] if is_for_aws() else ENGINES
        metafunc.parametrize(("table",), values(ways), indirect=True, scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Expect the tests to fail on moto that are listed as different there."""
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and item.path.parent.name == "assumptions":
            sentence = MOTO_DIFFERS.get(item.function.__name__)
            if sentence and item.callspec.params.get("table") == "moto":
                item.add_marker(pytest.mark.xfail(reason=f"moto differs: {sentence}", strict=True))


@pytest.fixture(scope="session")
def table(request: pytest.FixtureRequest) -> Iterator[Table]:
    """Create a table with a name of its own, and delete it at the end."""
    if request.param == AWS:
        with new_table(client_of_aws()) as table:
            yield table
    elif request.param == "moto":
        with mock_aws(), new_table(boto3.client("dynamodb")) as table:
            yield table
    else:
        endpoint = request.getfixturevalue("dynamodb").endpoint
        with new_table(boto3.client("dynamodb", endpoint_url=endpoint)) as table:
            yield table
