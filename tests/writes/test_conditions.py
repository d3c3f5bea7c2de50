"""Prepared writes name the tracker's attributes without aliases, unless the name is a reserved word."""

from importlib import resources

from moto.dynamodb import parsing
from pynamodb.attributes import UnicodeAttribute

from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.writes.conditions import PreparedWrite
from tests.support.shop import AppTask


def test_only_reserved_words_and_the_users_names_have_an_alias() -> None:
    reserved = resources.files(parsing).joinpath("reserved_keywords.txt").read_text(encoding="utf-8").lower().split()
    size, tracker = UnicodeAttribute(attr_name="size"), TaskRow.get_attributes().values()
    removed = [each.remove() for each in (*tracker, size)]
    write = PreparedWrite(AppTask.tracker.connection(), condition=size == "large", actions=removed)
    aliased = write.request({}, {})["ExpressionAttributeNames"].values()
    assert {*aliased} == {each.attr_name for each in tracker if each.attr_name in reserved} | {"size"}
