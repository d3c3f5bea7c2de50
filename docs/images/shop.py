"""The shop in the picture of the terminal: orders, some of which fail."""

from __future__ import annotations

from pynamodb.attributes import NumberAttribute

from pynamodb_tracker import ExecutionContext, GiveUp, Step, Task, UseCase


class AppTask(Task):
    """The table."""

    class Meta:
        """Its name and region."""

        table_name = "tasks"
        region = "us-east-1"


class Order(AppTask):
    """The use case; `number` decides which runs fail."""

    use_case_id = UseCase("order")

    confirm_payment = Step(100)
    ship = Step(200)
    deliver = Step(300)

    number = NumberAttribute()


def charge(ctx: ExecutionContext[Order]) -> None:
    """Fail at the first attempt of every ninth order, and give up on every thirty-first."""
    if ctx.task.number % 31 == 0:
        raise GiveUp("card declined")
    if ctx.task.number % 9 == 0 and ctx.attempt == 1:
        raise ConnectionError("HTTP 503")


def print_label(ctx: ExecutionContext[Order]) -> None:
    """Fail for every seventeenth order."""
    if ctx.task.number % 17 == 0:
        raise RuntimeError("out of paper")


def hand_over(ctx: ExecutionContext[Order]) -> None:
    """Record who signed."""
    ctx.task.data["signed_by"] = "the neighbour"
