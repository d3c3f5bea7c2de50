"""No state of a protocol breaks a promise, and without one of its guards, some state does."""

from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from tests.race.guards import Without
from tests.search.every_protocol import PROTOCOLS
from tests.search.protocol import Faults, patched
from tests.search.search import search


@pytest.fixture(autouse=True)
def _table() -> Iterator[None]:
    with patched():
        yield


@pytest.mark.parametrize(
    ("protocol", "who", "faults"),
    [(each, *bounds) for each in PROTOCOLS for bounds in each.BOUNDED],
    ids=lambda part: part.__name__.rpartition(".")[2] if isinstance(part, ModuleType) else None,
)
def test_no_state_breaks_a_promise(protocol: ModuleType, who: str, faults: Faults) -> None:
    searched = protocol.protocol(who, faults)
    found = search(searched, most=50_000)
    assert (found.violation, found.trace, found.is_complete) == (None, [], True)


@pytest.mark.parametrize(
    ("protocol", "guard", "write"),
    [(each, *guard) for each in PROTOCOLS for guard in each.GUARDS],
    ids=lambda part: part.__name__.rpartition(".")[2] if isinstance(part, ModuleType) else None,
)
def test_without_a_guard_a_state_breaks_a_promise(
    protocol: ModuleType, guard: str, write: str | Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    who, faults, violation = protocol.GUARDS[guard, write]
    remove = Without(guard, write) if isinstance(write, str) else write
    remove(monkeypatch)
    searched = protocol.protocol(who, faults)
    assert search(searched, most=50_000).violation == violation
