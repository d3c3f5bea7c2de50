"""Names of steps and attributes that clash: with the model, with what is stored, and with each other."""

from collections.abc import Callable
from typing import Any

import pytest
from pynamodb.attributes import (
    Attribute,
    DiscriminatorAttribute,
    NumberAttribute,
    TTLAttribute,
    UnicodeAttribute,
    VersionAttribute,
)

from pynamodb_tracker import Signal, Step, Task, UseCase
from tests.support.declaring import declare, new_table, refusal

PUBLIC = sorted(
    name for name in type.__dir__(new_table()) if not name.startswith("_") and name not in {"use_case_id", "Meta"}
)
"""All that a class of tasks has by itself, PynamoDB's part included."""

STORED = sorted(attribute.attr_name for attribute in Task.get_attributes().values())


def refused_of_table(**attributes: Any) -> str:
    """Return why a class of a table cannot have these attributes."""
    meta = type("Meta", (), {"table_name": "shop"})
    return refusal("Shop", Task, use_case_id=None, pack=None, Meta=meta, **attributes)


def test_the_names_of_the_design_are_among_the_reserved_ones() -> None:
    assert {"save", "query", "status", "data", "state", "create", "task_id", "tracker"} <= set(PUBLIC)


def test_a_step_or_an_attribute_named_like_something_of_the_model_is_refused() -> None:
    for name in PUBLIC:
        assert refusal(**{name: Step(10)}).startswith(f"Order.{name}")
        assert refusal(**{name: UnicodeAttribute(null=True)}).startswith(f"Order.{name}")
        assert refused_of_table(**{name: UnicodeAttribute(null=True)}).startswith(f"Shop.{name}")


@pytest.mark.parametrize("name", ["pending", "in_progress", "failed", "succeeded", "ignored"])
def test_a_step_may_have_the_name_of_a_state(name: str) -> None:
    order = declare(**{name: Step(20)})
    assert getattr(order, name).failed.step == name


def test_an_attribute_that_would_be_stored_under_a_name_of_the_tracker_is_refused() -> None:
    for name in STORED:
        told = refusal(mine=UnicodeAttribute(attr_name=name))
        assert (told.startswith("Order.mine"), repr(name) in told) == (True, True)
        assert refused_of_table(mine=UnicodeAttribute(attr_name=name)).startswith("Shop.mine")


def table_with(*bases: type, **attributes: Any) -> Any:
    """Return a class that declares no use case, but these."""
    meta = {"Meta": type("Meta", (), {"table_name": "shop"})} if bases == (Task,) else {}
    return declare("Between", *bases, use_case_id=None, pack=None, **meta, **attributes)


def test_two_attributes_that_would_be_stored_under_one_name_are_refused() -> None:
    told = refusal(amount=NumberAttribute(), total=NumberAttribute(attr_name="amount"))
    assert (told.startswith("Order."), "amount" in told, "total" in told) == (True, True, True)


def test_an_attribute_of_the_use_case_stored_like_one_of_the_table_is_refused() -> None:
    shop = table_with(new_table(), customer=UnicodeAttribute(null=True))
    told = refusal("Order", shop, buyer=UnicodeAttribute(attr_name="customer"))
    assert (told.startswith("Order."), "buyer" in told, "customer" in told) == (True, True, True)


@pytest.mark.parametrize(
    "base",
    [
        lambda: table_with(Task, customer=UnicodeAttribute(null=True)),
        lambda: table_with(new_table(), customer=UnicodeAttribute(null=True)),
        lambda: declare(customer=UnicodeAttribute(null=True)),
    ],
    ids=["table", "class between", "use case"],
)
def test_an_attribute_of_a_base_may_be_declared_anew(base: Callable[[], type]) -> None:
    express = declare("Express", base(), use_case_id=UseCase("express"), customer=UnicodeAttribute())
    assert express.customer.null is False


def test_an_answer_of_another_use_case_may_come_again_by_a_mixin_or_be_declared_anew_by_a_subclass() -> None:
    mixin = type("Approving", (), {"approved": Signal("approved")})
    order = declare("Order", mixin, new_table(), paid=Signal())
    express = declare("Express", order, use_case_id=UseCase("express"), paid=Signal("paid_at_once"))
    assert (express.approved.name, express.paid.name, order.paid.name) == ("approved", "paid_at_once", "paid")


def test_a_step_named_like_an_attribute_of_the_table_is_refused() -> None:
    shop = table_with(new_table(), ship=UnicodeAttribute(null=True))
    assert refusal("Order", shop, ship=Step(10)).startswith("Order.ship")


def test_an_attribute_named_like_a_step_of_the_base_is_refused() -> None:
    told = refusal("Express", declare(), use_case_id=UseCase("express"), pack=UnicodeAttribute(null=True))
    assert told.startswith("Express.pack")


@pytest.mark.parametrize("name", ["_private", "__dunder__", "_states", "_"])
@pytest.mark.parametrize("make", [lambda: Step(10), UnicodeAttribute], ids=["step", "attribute"])
def test_a_name_that_begins_with_an_underscore_is_refused(name: str, make: Any) -> None:
    assert refusal(**{name: make()}).startswith(f"Order.{name}")


@pytest.mark.parametrize(
    "attribute",
    [
        UnicodeAttribute(hash_key=True),
        UnicodeAttribute(range_key=True),
        DiscriminatorAttribute(),
        VersionAttribute(),
        TTLAttribute(null=True),
    ],
    ids=["hash key", "range key", "discriminator", "version", "time to live"],
)
def test_an_attribute_that_would_take_over_a_part_of_the_tracker_is_refused(attribute: Attribute[Any]) -> None:
    told = refusal(mine=attribute)
    assert (told.startswith("Order"), "mine" in told) == (True, True)


@pytest.mark.parametrize("stored_name", ["result#10", "payload#990"])
def test_an_attribute_that_is_stored_like_the_answer_or_the_payload_of_a_step_is_refused(stored_name: str) -> None:
    told = refusal(mine=UnicodeAttribute(attr_name=stored_name))
    assert told.startswith(f"Order.mine is stored as {stored_name!r}")


def test_a_stored_name_may_differ_from_the_name_in_python() -> None:
    order = declare(amount=NumberAttribute(attr_name="a"))
    assert order.amount.attr_name == "a"


def test_ordinary_names_are_fine() -> None:
    declare(amount=NumberAttribute(), result=UnicodeAttribute(), pending=Step(10), failed=Step(20), done=Step(30))


def test_methods_and_properties_of_the_users_own_are_fine() -> None:
    doubled = property(lambda self: self.amount * 2)
    order = declare(total=doubled, amount=NumberAttribute(), helper=lambda self: self)
    task = order("o-1", amount=21)
    assert (task.total, task.helper()) == (42, task)


@pytest.mark.parametrize(("name", "value"), [("save", Step(10)), ("query", UnicodeAttribute(null=True))])
def test_what_a_mixin_names_like_something_of_the_model_is_refused(name: str, value: Any) -> None:
    assert name in refusal("Order", type("Saving", (), {name: value}), new_table())
