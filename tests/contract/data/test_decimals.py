"""Amounts of money, and other numbers that keep every digit."""

import decimal
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from pynamodb.attributes import JSONAttribute, ListAttribute, MapAttribute, NumberAttribute, UnicodeAttribute

from pynamodb_tracker import DecimalAttribute, Step, UseCase, ValueNotStorableError
from tests.support.network import unreached
from tests.support.recorder import recorded
from tests.support.rows import stored
from tests.support.shop import AppTask

pytestmark = pytest.mark.usefixtures("table")


class Price(MapAttribute[str, Any]):
    net = DecimalAttribute()


class Invoice(AppTask):
    use_case_id = UseCase("invoice in decimals")

    send = Step(10)

    amount = DecimalAttribute(null=True)
    parts = ListAttribute(of=DecimalAttribute, null=True)
    price = Price(null=True)
    share = DecimalAttribute(default=Decimal("0.5"))
    rough = NumberAttribute(null=True)
    text = UnicodeAttribute(null=True)
    note = JSONAttribute(null=True)
    anything: ListAttribute[Any] = ListAttribute(null=True)


DIGITS = "1234567890" * 3 + "12345678"
STORABLE = [
    *("0", "3.10", "-3.1", "0.1", "4200", "1E+3", "-0.00", "0E+500", "0E-500", f"{DIGITS}", f"-0.{DIGITS}"),
    *("1E-130", "9.99E+125", f"{DIGITS[:30]}.{'0' * 40}", f"{DIGITS}E+80"),
]


@pytest.mark.parametrize("text", STORABLE)
def test_a_decimal_reads_back_equal(text: str) -> None:
    amount = Decimal(text)
    Invoice.create("i-1", amount=amount, parts=[amount], price={"net": amount})
    found = Invoice.get_task("i-1")
    assert (found.amount, found.parts, found.price.net) == (amount, [amount], amount)
    assert isinstance(found.amount, Decimal)


@pytest.mark.parametrize(
    ("text", "digits"), [("3.10", "3.1"), ("1.50E+3", "1500"), ("-0.00", "0"), ("1E-7", "0.0000001")]
)
def test_a_decimal_is_stored_with_the_same_digits_on_every_engine(text: str, digits: str) -> None:
    created = Invoice.create("i-1", amount=Decimal(text))
    assert stored(Invoice, "i-1")["amount"] == {"N": digits}
    assert repr(created.amount) == repr(Invoice.get_task("i-1").amount) == repr(Decimal(digits))


def test_a_whole_number_is_read_and_held_as_a_decimal() -> None:
    Invoice.create("i-1", amount=4200)
    with Invoice.send.start("i-1") as ctx:
        assert repr(ctx.task.amount) == "Decimal('4200')"
        ctx.task.amount = 4300
        assert repr(ctx.task.amount) == "Decimal('4300')"


def test_a_default_is_a_decimal_of_each_task() -> None:
    Invoice.create("i-1")
    assert Invoice.get_task("i-1").share == Decimal("0.5")


@pytest.mark.parametrize(
    ("amount", "message"),
    [
        (Decimal("NaN"), "not a finite number"),
        (Decimal("sNaN"), "not a finite number"),
        (Decimal("-Infinity"), "not a finite number"),
        (Decimal(f"{DIGITS}.1"), "more than 38 digits"),
        (Decimal("1" * 20_001), "is outside"),
        (Decimal("1E+126"), "is outside"),
        (Decimal("1E-131"), "is outside"),
        (Decimal("1E+999999999"), "is outside"),
        (3.1, r"not a float: write Decimal\('3.1'\)"),
        ("3.1", r"not a str: write Decimal\('3.1'\)"),
        (True, "not a bool"),
        ([], "not a list"),
    ],
)
def test_what_cannot_be_stored_is_refused_before_any_request(amount: Any, message: str) -> None:
    with unreached(), pytest.raises(ValueNotStorableError, match=message) as caught:
        Invoice.create("i-1", amount=amount)
    assert caught.value.attribute == "amount"


def test_an_equal_amount_is_no_change() -> None:
    Invoice.create("i-1", amount=Decimal("3.10"))
    with Invoice.send.start("i-1") as ctx, recorded(AppTask) as requests:
        ctx.task.amount = Decimal("3.1")
        ctx.save()
        assert requests == []
        ctx.task.amount += Decimal("0.01")
    assert stored(Invoice, "i-1")["amount"] == {"N": "3.11"}


@pytest.fixture
def hostile_context() -> Iterator[None]:
    """Round to three digits, and trap everything."""
    with decimal.localcontext() as context:
        context.prec = 3
        context.capitals = 0
        context.traps = dict.fromkeys(context.traps, True)
        yield


@pytest.mark.usefixtures("hostile_context")
@pytest.mark.parametrize("text", [DIGITS, "1E+100", f"0.{'0' * 60}1"])
def test_the_decimal_context_of_the_caller_changes_nothing(text: str) -> None:
    Invoice.create("i-1", amount=Decimal(text))
    with Invoice.send.start("i-1") as ctx:
        assert ctx.task.amount == Decimal(text)


def test_an_amount_is_compared_and_updated_in_expressions() -> None:
    task = Invoice.create("i-1", amount=Decimal("3.10"))
    task.update([Invoice.amount.set(Decimal("4.20"))], condition=Invoice.amount < Decimal(4))
    assert task.amount == Decimal("4.2")
    with pytest.raises(ValueError, match="38 digits"):
        Invoice.amount.set(Decimal(f"{DIGITS}1"))


@pytest.mark.parametrize(
    "attributes",
    [
        {"rough": Decimal("3.1")},
        {"text": Decimal("3.1")},
        {"note": {"lines": [{"price": Decimal("3.1")}]}},
        {"anything": [Decimal("3.1")]},
        {"data": {"price": Decimal("3.1")}},
    ],
)
def test_the_error_of_a_decimal_elsewhere_names_what_stores_it(attributes: dict[str, Any]) -> None:
    with pytest.raises(ValueNotStorableError, match=r"declare a DecimalAttribute\(\)"):
        Invoice.create("i-1", **attributes)


def test_the_error_of_another_value_that_contains_itself_does_not_look_for_decimals_for_ever() -> None:
    endless: list[Any] = [object()]
    endless.append(endless)
    with pytest.raises(ValueNotStorableError) as caught:
        Invoice.create("i-1", note=endless)
    assert "DecimalAttribute" not in str(caught.value)
