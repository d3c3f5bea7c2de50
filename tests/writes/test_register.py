"""The register of features: each feature that takes part in a write is in it, under its name."""

import pkgutil
from collections.abc import Iterator
from importlib import import_module

from pynamodb_tracker import features
from pynamodb_tracker.writes.participants import FEATURES, OptionalParticipant, Participant


def _participants(of: type[Participant]) -> Iterator[type[Participant]]:
    for each in of.__subclasses__():
        yield each
        yield from _participants(each)


def test_the_register_has_each_participant_of_features() -> None:
    for module in pkgutil.walk_packages(features.__path__, f"{features.__name__}."):
        import_module(module.name)
    found = {
        (each.__module__.removeprefix(f"{features.__name__}."), each.__name__)
        for each in _participants(Participant)
        if each.__module__.startswith(features.__name__) and not issubclass(each, OptionalParticipant)
    }
    assert found == {(module, name) for _, module, name in FEATURES}
