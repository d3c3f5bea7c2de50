"""The tables that are examined: one without `keep_for`, one with it, and one with an index of its own in the table."""

from datetime import timedelta

from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.indexes import AllProjection, GlobalSecondaryIndex, IncludeProjection, LocalSecondaryIndex

from pynamodb_tracker import Step, Task, UseCase


class ByCustomer(GlobalSecondaryIndex["ShopTask"]):  # type: ignore[no-untyped-call]  # PynamoDB's hook is untyped
    class Meta:
        index_name = "by-customer"
        projection = IncludeProjection(["amount"])

    customer = UnicodeAttribute(hash_key=True)


class ShopTask(Task):
    class Meta:
        table_name = "shop"
        region = "us-east-1"

    customer = UnicodeAttribute(null=True)
    amount = NumberAttribute(null=True)

    by_customer = ByCustomer()


class Parcel(ShopTask):
    use_case_id = UseCase("parcel", pausable=False)

    ship = Step(10)

    weight = NumberAttribute(null=True)


class ArchiveTask(Task):
    class Meta:
        table_name = "archive"
        region = "us-east-1"


class Receipt(ArchiveTask):
    use_case_id = UseCase("receipt", keep_for=timedelta(days=30), pausable=False)

    send = Step(10)


class ByWorker(LocalSecondaryIndex["LocalTask"]):  # type: ignore[no-untyped-call]  # PynamoDB's hook is untyped
    class Meta:
        index_name = "by-worker"
        projection = AllProjection()

    task_id = UnicodeAttribute(hash_key=True)
    worker = UnicodeAttribute(range_key=True)


class LocalTask(Task):
    class Meta:
        table_name = "local"
        region = "us-east-1"

    by_worker = ByWorker()


class FarTask(Task):
    """A table that no engine here has."""

    class Meta:
        table_name = "far"
