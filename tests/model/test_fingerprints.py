"""Fingerprints of payloads: equal for what is the same in JSON, however it was written."""

from decimal import Decimal
from enum import Enum
from hashlib import sha256

import pytest

from pynamodb_tracker.model.results import fingerprint
from tests.support.rows import nested


class Currency(str, Enum):  # noqa: UP042 - its text as JSON is not what str() returns, unlike that of StrEnum
    EUR = "EUR"


class Measured(float):
    """A number that shows itself in its own way, as those of NumPy do."""

    def __repr__(self) -> str:
        return f"Measured({float(self)})"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": [2]}, {"b": [2], "a": 1}),
        (3, 3.0),
        (Decimal("3.00"), 3),
        (0.1, Decimal("0.1")),
        (-0.0, 0),
        (1e22, 10**22),
        ((1, 2), [1, 2]),
        (100, Decimal("1E2")),
        (Currency.EUR, "EUR"),
        (Measured(2.5), 2.5),
    ],
    ids=str,
)
def test_payloads_that_mean_the_same_have_one_fingerprint(one: object, other: object) -> None:
    assert fingerprint(one) == fingerprint(other)


def test_payloads_that_differ_have_different_fingerprints() -> None:
    different: list[object] = [
        None, True, False, 0, 1, -1, 10, 0.5, "1", "n1e0", "true", "", [], {}, [1], [[1]], {"a": 1}, {"a": None},
        {"a": "1"}, {"A": 1}, 12345678901234567890, 12345678901234567891, Decimal("1e-30"), float("nan"), "é", "e",
    ]  # fmt: skip
    assert len({fingerprint(each) for each in different}) == len(different)


def test_a_fingerprint_is_stored_with_its_version_and_never_changes() -> None:
    canonical = '{"amount":"n1e2","currency":"sEUR"}'
    assert fingerprint({"currency": "EUR", "amount": 100}) == f"1:{sha256(canonical.encode()).hexdigest()[:32]}"


def test_a_payload_that_is_nested_too_deep_is_refused_in_one_line() -> None:
    fingerprint(nested(199))
    for depth in (200, 10_000):
        with pytest.raises(ValueError, match=r"^must_match is nested more than 200 levels deep"):
            fingerprint(nested(depth))
