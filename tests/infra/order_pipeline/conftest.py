"""The fixtures of the pipeline: it is deployed to moto once, and each test begins with it empty."""

import importlib
import os
import sys
from collections.abc import Iterator
from types import ModuleType
from unittest import mock

import pytest
from moto import mock_aws

from pynamodb_tracker.clock import StoppedClock
from tests.infra.order_pipeline.account import Account
from tests.infra.order_pipeline.stack import Stack, deploy, environment
from tests.infra.order_pipeline.template import CODE


@pytest.fixture(scope="package")
def stack() -> Iterator[Stack]:
    with mock_aws():
        yield deploy()


@pytest.fixture(scope="package")
def app(stack: Stack) -> Iterator[ModuleType]:
    """Import the handlers from CodeUri, with the environment of all functions; drop what was imported in the end."""
    with (
        mock.patch.dict(os.environ, environment(stack["ConfirmPayment"]) | environment(stack["Ship"])),
        mock.patch.object(sys, "path", [str(CODE), *sys.path]),
    ):
        yield importlib.import_module("pipeline.app")
    for name in [name for name in sys.modules if name == "pipeline" or name.startswith("pipeline.")]:
        del sys.modules[name]


@pytest.fixture
def account(
    stack: Stack, app: ModuleType, stopped_clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Account]:
    """Give the test the pipeline, with nothing in it, and a clock that stands."""
    account = Account(stack, app, stopped_clock)
    monkeypatch.setattr("botocore.client.BaseClient._make_api_call", account.life.api_call())
    monkeypatch.setattr(sys.modules["pipeline.steps"], "post", account.services.post)
    yield account
    account.empty()
