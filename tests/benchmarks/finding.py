"""Time and requests of finding the tasks of a customer, among 100,000 tasks of 1,000 customers."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

from pynamodb.attributes import UnicodeAttribute

from pynamodb_tracker import FindBy, Step, Task, UseCase
from tests.benchmarks.queries import BATCH, REPEATED, THREADS, Query, numbered, quickest
from tests.benchmarks.tables import table
from tests.benchmarks.ways import engine
from tests.support.recorder import recorded
from tests.support.rows import client, stored

TASKS, CUSTOMERS = 100_000, 1_000


class FoundTask(Task):
    class Meta:
        table_name = "bench-finding"
        region = "us-east-1"

    customer = UnicodeAttribute(null=True)

    by_customer = FindBy(customer)


class FoundOrder(FoundTask):
    use_case_id = UseCase("found order")

    ship = Step(10)


def report() -> Iterator[str]:
    yield f"Finding tasks by an attribute, among {TASKS:,} tasks of {CUSTOMERS:,} customers"
    with engine() as found:
        if isinstance(found, str):
            yield found
            return
        FoundTask.create_table(wait=True)
        fill()
        find = FoundTask.by_customer
        queries: dict[str, Query] = {
            f"all {TASKS // CUSTOMERS} of a customer": lambda: list(find.query("c-7")),
            "the 10 newest": lambda: list(find.query("c-7", newest_first=True, limit=10)),
            "a page of 50": lambda: find.page("c-7"),
            "none": lambda: list(find.query("nobody")),
        }
        yield from table(["query", "time", "requests"], [[name, *figures(query)] for name, query in queries.items()])
        FoundTask.delete_table()


def fill() -> None:
    """Write rows as `create` writes them, by BatchWriteItem."""
    FoundOrder.create("o-0", customer="c-0")
    first, start = stored(FoundOrder, "o-0"), datetime.now(UTC) - timedelta(days=1)

    def write(begin: int) -> None:
        rows = [numbered(first, number, start) for number in range(begin, min(begin + BATCH, TASKS))]
        puts = [
            {"PutRequest": {"Item": {**row, "customer": {"S": f"c-{(begin + at) % CUSTOMERS}"}}}}
            for at, row in enumerate(rows)
        ]
        answer = client(FoundTask).batch_write_item(RequestItems={"bench-finding": puts})
        assert not answer["UnprocessedItems"]

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(write, range(0, TASKS, BATCH)))


def figures(query: Query) -> list[str]:
    with recorded(FoundTask) as requests:
        query()
    return [f"{1000 * quickest(query, REPEATED):.1f} ms", str(len(requests))]
