"""Use cases: their names, their table, and that each belongs to one class."""

import gc
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


def test_a_use_case_without_a_step_is_refused() -> None:
    told = refusal(pack=None)
    assert told.startswith("Order")
    assert "Step(" in told


def test_a_step_without_a_use_case_is_refused() -> None:
    told = refusal(use_case_id=None)
    assert told.startswith("Order.pack")
    assert "use_case_id = UseCase(" in told


def test_a_step_on_the_table_class_is_refused() -> None:
    meta = type("Meta", (), {"table_name": "shop"})
    told = refusal("Shop", Task, use_case_id=None, Meta=meta)
    assert told.startswith("Shop.pack")


@pytest.mark.parametrize(
    "value", ["order", UnicodeAttribute(range_key=True), UnicodeAttribute(default="order"), UseCase]
)
def test_a_use_case_that_is_declared_as_something_else_is_refused(value: Any) -> None:
    told = refusal(use_case_id=value)
    assert told.startswith("Order")
    assert "use_case_id = UseCase(" in told


def test_a_use_case_under_another_name_is_refused() -> None:
    told = refusal(use_case_id=None, kind=UseCase("order"))
    assert told.startswith("Order.kind")
    assert "use_case_id = UseCase('order')" in told


def test_a_use_case_without_a_table_is_refused() -> None:
    told = refusal("Order", Task)
    assert told.startswith("Order")
    assert "class Meta" in told


@pytest.mark.parametrize("bases", [(), (Task,)], ids=["of a table", "of Task itself"])
def test_a_meta_on_a_use_case_is_refused(bases: tuple[type, ...]) -> None:
    told = refusal("Order", *bases, Meta=type("Meta", (), {"table_name": "orders"}))
    assert told.startswith("Order")
    assert "Meta" in told


@pytest.mark.parametrize("index", [ByCustomer(), ByAmount()], ids=["global", "local"])
def test_an_index_on_a_use_case_is_refused_and_belongs_to_the_table(index: Any) -> None:
    told = refusal("Order", new_table("Shop"), by_it=index, customer=UnicodeAttribute(), amount=NumberAttribute())
    assert told.startswith("Order.by_it")
    assert "Shop" in told


@pytest.mark.parametrize("name", [None, "", 5])
def test_a_meta_without_a_table_name_is_refused(name: Any) -> None:
    meta = type("Meta", (), {"region": "us-east-1"} | ({} if name is None else {"table_name": name}))
    told = refusal("Shop", Task, use_case_id=None, pack=None, Meta=meta)
    assert told.startswith("Shop")
    assert "table_name" in told


def test_two_classes_with_one_use_case_on_one_table_are_refused() -> None:
    shop = new_table("Shop")
    order = declare("Order", shop)
    told = refusal("Purchase", shop)
    assert told.startswith("Purchase")
    assert "'order'" in told
    assert order.__qualname__ in told


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


def test_a_subclass_of_a_use_case_needs_a_use_case_of_its_own() -> None:
    order = declare()
    told = refusal("Express", order, use_case_id=None, pack=None)
    assert told.startswith("Express")
    assert "use_case_id = UseCase(" in told


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
