"""A task that uses nothing of queues and schedules sends what it sent before there was any of that."""

from collections.abc import Iterator

import pytest

from tests.cost.plain_requests import LIVES, in_file, sent
from tests.support.engines import Engine, opened
from tests.support.shop import AppTask

engine = opened(AppTask, scope="module")


@pytest.fixture
def empty(engine: Engine) -> Iterator[None]:
    yield
    engine.empty()


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize("life", LIVES)
def test_a_plain_life_sends_exactly_the_requests_on_file(life: str) -> None:
    assert sent(life) == in_file()[life]
