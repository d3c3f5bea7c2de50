"""The use cases of these tests, on a table in memory or on one of dynoxide, as the environment says."""

import os
from datetime import timedelta

from pynamodb.attributes import UnicodeAttribute

from pynamodb_tracker import ConcurrencyLimit, Step, Task, UseCase


class ShopTask(Task):
    class Meta:
        table_name = os.environ.get("SHOP_TABLE", "shop")
        region = "us-east-1"
        host = os.environ.get("SHOP_ENDPOINT")
        clock_margin = timedelta(seconds=float(os.environ.get("SHOP_MARGIN", "2")))


class Order(ShopTask):
    use_case_id = UseCase("order")

    confirm = Step(
        10,
        lock_for=timedelta(seconds=float(os.environ.get("SHOP_LOCK", "300"))),
        retry_delay=timedelta(seconds=float(os.environ.get("SHOP_RETRY_DELAY", "0"))),
        concurrency_limit=ConcurrencyLimit("desk", 2) if "SHOP_LIMIT" in os.environ else None,
    )
    ship = Step(20, retry_delay=timedelta(minutes=1))

    note = UnicodeAttribute(null=True)


class Parcel(ShopTask):
    """Another use case of the same table, whose states have shards."""

    use_case_id = UseCase("parcel", status_shards=3)

    sort = Step(10)
