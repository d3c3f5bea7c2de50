"""No order of moves breaks a promise of the dispatcher, and each of its guards is needed."""

import logging

import pytest

from tests.work.mutants import MUTANTS, Mutant
from tests.work.search import Setup, search

SETUPS = {
    "3 tasks": Setup({"a": "123"}),
    "3 threads": Setup({"a": "12"}, threads=3),
    "others": Setup({"a": "123"}, faults={"taken": 2}),
    "limit": Setup({"a": "123"}, limit=2, faults={"refused": 1}),
    "made due": Setup({"a": "12", "b": "3"}, faults={"makes": 1}),
    "limit over steps": Setup({"a": "12", "b": "3"}, limit=1, faults={"refused": 1}),
    "slots": Setup({"a": "123"}, threads=3, slots=1, faults={"taken": 1}),
    "slots of others": Setup({"a": "12"}, slots=1, faults={"steal": 1}),
    "slots and a stop": Setup({"a": "1", "b": "4"}, slots=1, faults={"stop": 1}),
    "close": Setup({"a": "1", "b": "4"}, slots=1, faults={"close": 1}),
    "pause": Setup({"a": "1", "b": "3"}, faults={"pause": 1, "makes": 1}),
    "rate": Setup({"a": "12", "b": "3"}, rate=1),
    "loop": Setup({"a": "12", "b": "4"}, finders=1, faults={"makes": 1}),
    "loop with a limit": Setup({"a": "12", "b": "4"}, threads=1, finders=2, limit=2, faults={"refused": 1, "stop": 1}),
    "loop with slots": Setup({"a": "123"}, finders=1, slots=1),
    "takeovers": Setup({"a": "123"}, left={"a1": "x", "a2": "x"}),
    "takeovers of steps": Setup({"a": "1", "b": "45"}, left={"a1": "x", "b4": "x"}),
    "last attempt": Setup({"a": "123"}, left={"a2": "x!"}, faults={"taken": 1}),
    "last attempt among steps": Setup({"a": "12", "b": "3"}, threads=3, left={"a2": "x!"}),
    "last attempts": Setup({"a": "1", "b": "3", "c": "4"}, left={"a1": "x!", "b3": "x!"}),
    "last attempts of others": Setup({"a": "12", "b": "3"}, left={"a1": "x!", "b3": "y!"}, faults={"makes": 1}),
    "last attempt and slots": Setup({"a": "12"}, left={"a2": "x!"}, slots=2, faults={"steal": 1}),
    "last attempt and a stop": Setup({"a": "12"}, left={"a2": "x!"}, faults={"stop": 1}),
    "last attempt and a pause": Setup({"a": "12", "b": "3"}, left={"a2": "x!"}, faults={"pause": 1}),
    "last attempt and a limit": Setup({"a": "123"}, left={"a2": "x!"}, limit=2, faults={"refused": 1}),
    "loop with a last attempt": Setup({"a": "12", "b": "3"}, finders=2, left={"a2": "x!"}),
    "unlocked": Setup({"a": "12", "b": "3"}, unlocked="a2"),
    "two of which one is unlocked": Setup({"a": "12", "b": "3"}, left={"b3": "x!"}, unlocked="a2"),
    "loop with an unlocked one": Setup({"a": "12", "b": "3"}, finders=1, unlocked="a1"),
    "loop of two finders": Setup({"a": "1", "b": "4"}, finders=2, faults={"makes": 1}),
}


@pytest.fixture(autouse=True)
def _without_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("pynamodb_tracker"), "disabled", True)


@pytest.mark.parametrize("setup", SETUPS.values(), ids=SETUPS)
def test_no_order_of_moves_breaks_a_promise(setup: Setup) -> None:
    assert search(setup)[1] is None


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_without_a_guard_some_order_of_moves_breaks_a_promise(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.apply(monkeypatch)
    _, problem = search(SETUPS[mutant.setup])
    assert problem is not None
    assert mutant.problem in problem
