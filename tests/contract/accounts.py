"""Rows of the user's own tables, which a transaction of a run writes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.models import Model

from tests.support.shop import AppTask


class Account(Model):
    """An account that is debited; it lies in the table of the tasks, where there is one at hand."""

    class Meta:
        """Those of the engine, while a test runs."""

        table_name = "contract"
        region = "us-east-1"
        host: str | None = None

    name = UnicodeAttribute(hash_key=True, attr_name="task_id")
    kind = UnicodeAttribute(range_key=True, attr_name="use_case_id", default="account")
    balance = NumberAttribute(default=0)


@contextmanager
def accounts() -> Iterator[None]:
    """Let the accounts be where the tasks are."""
    meta: dict[str, Any] = {"host": getattr(AppTask.Meta, "host", None), "table_name": AppTask.Meta.table_name}
    with mock.patch.multiple(Account.Meta, **meta):
        Account._connection = None
        try:
            yield
        finally:
            Account._get_connection().connection.client.close()
            Account._connection = None
