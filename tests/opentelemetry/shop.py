"""Orders whose errors contain card numbers, and parcels that follow them."""

from datetime import timedelta

from pynamodb_tracker import Step, Task, UseCase


class ShopTask(Task):
    """The table."""

    class Meta:
        """Its name, and no margin of clocks: tests let locks expire."""

        table_name = "observed"
        region = "us-east-1"
        clock_margin = timedelta(0)

    def redact(self, text: str) -> str:
        """Remove card numbers."""
        return text.replace("4242", "****")


class Order(ShopTask):
    """Two attempts, and a second step."""

    use_case_id = UseCase("order")

    ship = Step(10, max_attempts=2)
    deliver = Step(20)


class Parcel(ShopTask):
    """What follows an order."""

    use_case_id = UseCase("parcel")

    send = Step(10)
