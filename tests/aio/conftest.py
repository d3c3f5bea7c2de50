"""The tables of these tests, in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.engines import Engine, Moto
from tests.support.shop import AppTask


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Moto.of([AppTask]) as engine:
        yield engine


@pytest.fixture
def table(engine: Engine) -> Iterator[type]:
    yield engine.tables[0]
    engine.empty()
