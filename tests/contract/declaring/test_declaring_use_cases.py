"""Use cases: their names, their table, and that each belongs to one class."""

import gc
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.indexes import AllProjection, GlobalSecondaryIndex, LocalSecondaryIndex

from pynamodb_tracker import Step, Task, UseCase
from tests.support.declaring import declare, new_table, refusal


class ByCustomer(GlobalSecondaryIndex[Task]):
    class Meta:
        index_name = "by-customer"
        projection = AllProjection()

    customer = UnicodeAttribute(hash_key=True)


class ByAmount(LocalSecondaryIndex[Task]):
    class Meta:
        index_name = "by-amount"
        projection = AllProjection()

    task_id = UnicodeAttribute(hash_key=True)
    amount = NumberAttribute(range_key=True)


def test_options_of_a_use_case_are_given_by_name() -> None:
    use_case: Any = UseCase
    with pytest.raises(TypeError):
        use_case("order", 5)


def meta(**settings: Any) -> type:
    return type("Meta", (), settings)


def refusal_of_index(index: Any) -> str:
    return refusal("Order", new_table(), by_it=index, customer=UnicodeAttribute(), amount=NumberAttribute())


REFUSALS: dict[str, tuple[Callable[[], str], str, str]] = {
    "no step": (lambda: refusal(pack=None), "Order", "Step("),
    "no use case": (lambda: refusal(use_case_id=None), "Order.pack", "use_case_id = UseCase("),
    "a step on the table": (
        lambda: refusal("Shop", Task, use_case_id=None, Meta=meta(table_name="shop")),
        "Shop.pack",
        "use_case_id = UseCase(",
    ),
    **{
        f"{name} for a use case": (partial(refusal, use_case_id=value), "Order", "use_case_id = UseCase(")
        for name, value in {
            "text": "order",
            "a key": UnicodeAttribute(range_key=True),
            "an attribute": UnicodeAttribute(default="order"),
            "the class": UseCase,
        }.items()
    },
    "a use case under another name": (
        lambda: refusal(use_case_id=None, kind=UseCase("order")),
        "Order.kind",
        "use_case_id = UseCase('order')",
    ),
    "no table": (lambda: refusal("Order", Task), "Order", "class Meta"),
    "a Meta on a use case": (lambda: refusal(Meta=meta(table_name="orders")), "Order", "Meta"),
    "a Meta on a use case of Task": (lambda: refusal("Order", Task, Meta=meta(table_name="orders")), "Order", "Meta"),
    "a global index": (lambda: refusal_of_index(ByCustomer()), "Order.by_it", "Shop"),
    "a local index": (lambda: refusal_of_index(ByAmount()), "Order.by_it", "Shop"),
    **{
        f"a Meta with {settings}": (
            partial(refusal, "Shop", Task, use_case_id=None, pack=None, Meta=meta(region="us-east-1", **settings)),
            "Shop",
            "table_name",
        )
        for settings in ({}, {"table_name": ""}, {"table_name": 5})
    },
    "a subclass without a use case": (
        lambda: refusal("Express", declare(), use_case_id=None, pack=None),
        "Express",
        "use_case_id = UseCase(",
    ),
}


@pytest.mark.parametrize(("refuse", "name", "write"), REFUSALS.values(), ids=REFUSALS)
def test_a_wrong_declaration_is_refused_with_its_name_and_what_to_write(
    refuse: Callable[[], str], name: str, write: str
) -> None:
    told = refuse()
    assert (told.startswith(name), write in told) == (True, True)


def test_two_classes_with_one_use_case_on_one_table_are_refused() -> None:
    shop = new_table("Shop")
    order = declare("Order", shop)
    told = refusal("Purchase", shop)
    assert (told.startswith("Purchase"), "'order'" in told, order.__qualname__ in told) == (True, True, True)


def test_a_refused_class_takes_nothing_away_from_the_first_one() -> None:
    shop = new_table()
    order = declare("Order", shop)
    refusal("Purchase", shop)
    assert type(shop.from_raw_data({"task_id": {"S": "x"}, "use_case_id": {"S": "order"}})) is order


def test_a_class_that_was_refused_claims_nothing() -> None:
    shop = new_table()
    refusal("Order", shop, ship=Step(503))
    declare("Purchase", shop)


def test_the_same_class_defined_anew_replaces_the_first_one() -> None:
    shop = new_table()
    first = declare("Order", shop)
    second = declare("Order", shop, ship=Step(10))
    assert first is not second
    assert type(shop.from_raw_data({"task_id": {"S": "x"}, "use_case_id": {"S": "order"}})) is second


def test_a_class_that_was_replaced_still_works_as_what_it_was() -> None:
    shop = new_table()
    first = declare("Order", shop)
    second = declare("Order", shop, ship=Step(10))
    assert first.pack.pending.code == second.pack.pending.code == 500
    assert first.pack.pending == second.pack.pending


def test_a_class_that_went_out_of_scope_gives_its_use_case_free() -> None:
    shop = new_table()

    def within_a_function() -> None:
        declare("Order", shop)

    gc.disable()
    try:
        within_a_function()
        declare("Purchase", shop)
    finally:
        gc.enable()


def test_the_same_use_case_on_another_table_is_fine() -> None:
    first, second = declare("Order", new_table("Shop")), declare("Purchase", new_table("Store", table_name="store"))
    assert first.tracker.table is not second.tracker.table


def test_the_same_table_name_in_another_class_is_another_table_to_the_library() -> None:
    declare("Order", new_table("Shop"))
    declare("Purchase", new_table("Store"))


def test_a_subclass_with_a_use_case_of_its_own_inherits_steps_and_attributes() -> None:
    order = declare(amount=NumberAttribute())
    express = declare("Express", order, use_case_id=UseCase("express"), pack=None, fly=Step(900))
    assert express.pack.succeeded == express.fly.pending
    assert "amount" in express.get_attributes()
    assert order.pack.succeeded.code == 1000
    assert express.pack.pending != order.pack.pending


def test_a_subclass_may_not_put_a_step_too_close_to_an_inherited_one() -> None:
    told = refusal("Express", declare(), use_case_id=UseCase("express"), pack=None, fly=Step(503))
    assert told.startswith("Express.fly = Step(503) is 3 after pack = Step(500)")


def test_a_subclass_may_declare_a_step_anew() -> None:
    express = declare("Express", declare(), use_case_id=UseCase("express"), pack=Step(700))
    assert express.pack.pending.code == 700


def test_a_mixin_after_the_table_works_as_well() -> None:
    class Shipping:
        ship = Step(20)

    assert declare("Order", new_table(), Shipping).ship.pending.code == 20


def test_a_use_case_of_a_mixin_is_that_of_the_class() -> None:
    class Ordering:
        use_case_id = UseCase("order")
        ship = Step(20)

    order = declare("Order", Ordering, new_table(), use_case_id=None)
    assert order.ship.pending.use_case_id == "order"


def test_a_second_class_with_the_use_case_of_a_mixin_is_refused() -> None:
    class Ordering:
        use_case_id = UseCase("order")

    shop = new_table()
    order = declare("Order", Ordering, shop, use_case_id=None)
    assert order.__qualname__ in refusal("Purchase", Ordering, shop, use_case_id=None)


def test_attributes_of_a_mixin_may_come_by_the_table_or_a_class_above_or_below_it() -> None:
    class Priced:
        amount = NumberAttribute(null=True)

    nothing: dict[str, Any] = {"use_case_id": None, "pack": None}
    meta = type("Meta", (), {"table_name": "shop"})
    below = declare("Below", Priced, new_table(), **nothing)
    above = declare("Above", Priced, Task, **nothing)
    for base in (
        declare("Shop", Priced, Task, Meta=meta, **nothing),
        declare("Shop", above, Meta=meta, **nothing),
        below,
    ):
        assert "amount" in declare("Order", base).get_attributes()


def test_a_subclass_of_a_use_case_with_mixins_inherits_what_they_bring() -> None:
    class Shipping:
        ship = Step(20)
        amount = NumberAttribute(null=True)

    order = declare("Order", Shipping, new_table())
    express = declare("Express", order, use_case_id=UseCase("express"))
    assert express.ship.succeeded == express.pack.pending
    assert "amount" in express.get_attributes()
