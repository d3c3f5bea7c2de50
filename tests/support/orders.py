"""The use case for these tests. Each worker declares it again to get its own connection."""

from datetime import timedelta
from typing import Any

from pynamodb.attributes import NumberAttribute, UnicodeAttribute

from pynamodb_tracker import Signal, Step, Task, UseCase

MARGIN = timedelta(seconds=2)
LOCK = timedelta(minutes=5)


def table_at(endpoint: str, table: str, margin: timedelta) -> Any:
    class TableTask(Task):
        class Meta:
            table_name = table
            region = "us-east-1"
            host = endpoint
            clock_margin = margin

    return TableTask


def orders(
    endpoint: str,
    table: str,
    *,
    margin: timedelta = MARGIN,
    lock_for: timedelta = LOCK,
    max_attempts: int = 3,
    name: str = "order",
    **options: Any,
) -> Any:
    shop = table_at(endpoint, table, margin)

    class Order(shop):  # type: ignore[misc,valid-type]  # the base is created by this call
        use_case_id = UseCase(name, **options)

        confirm = Step(10, max_attempts=max_attempts, lock_for=lock_for)
        ship = Step(20, max_attempts=2, lock_for=lock_for, also_from=(confirm.failed,))

        paid, approved = Signal(), Signal()
        amount = NumberAttribute(null=True)
        note = UnicodeAttribute(null=True)

    return Order


def close(order: Any) -> None:
    """Close a use case's sockets."""
    order.tracker.connection().connection.client.close()
