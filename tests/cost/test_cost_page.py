"""Each figure of README and of the page about cost is measured, worked out from that, or printed by `make bench`."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pynamodb.attributes import UnicodeAttribute

from pynamodb_tracker import ConcurrencyLimit, FindBy, Repeat, Signal, Step, Task, UseCase
from pynamodb_tracker.aws_lambda import handles
from pynamodb_tracker.control import watch
from pynamodb_tracker.model.cost import IDLE_READS, Load, dollars, size_for, write_units
from pynamodb_tracker.presentation.children import family_of
from pynamodb_tracker.presentation.task_facts import read_task
from pynamodb_tracker.testing import sqs_event, stopped_clock
from tests.benchmarks import settings
from tests.benchmarks.by_tracker import ByTracker, ByTrackerInRow
from tests.benchmarks.cost import SIZES, measured
from tests.benchmarks.usage import Operation, Usage, usages
from tests.benchmarks.ways import engine

PAGE = "docs/explanation/cost.md"
ROOT = Path(__file__).parents[2]
PRINTED = Path(__file__).parents[1] / "benchmarks" / "printed"
MINUTE = timedelta(minutes=1)
LONG = "failure with a traceback of 2 KB"
AGAIN = "the same failure again"
OF_OWN = ", and your own rows twice"


class ShopTask(Task):
    class Meta:
        table_name = "documented"
        region = "us-east-1"


class FoundTask(Task):
    class Meta:
        table_name = "documented-found"
        region = "us-east-1"

    customer = UnicodeAttribute(null=True)
    by_customer = FindBy(customer)


class Order(ShopTask):
    use_case_id = UseCase("order")

    pay = Step(10, lock_for=5 * MINUTE)
    ship = Step(20)

    paid = Signal()

    note = UnicodeAttribute(null=True)


class Refund(ShopTask):
    use_case_id = UseCase("refund")

    pay = Step(10, concurrency_limit=ConcurrencyLimit("bank", slots=2))


class Nightly(ShopTask):
    use_case_id = UseCase("nightly")

    work = Step(10)


class Found(FoundTask):
    use_case_id = UseCase("found")

    work = Step(10)


Rows = Callable[["Shop"], Iterator[tuple[str, list[str]]]]
Benched = dict[str, dict[str, list[Usage]]]


def nothing(*_: object) -> None: ...


def take_the_new_note(task: Order, new: Any) -> None:
    task.note = new["note"]


@dataclass
class Shop:
    """Tasks, and what operations on them use."""

    numbers: Iterator[int]

    def use(self, operate: Callable[[], object], table: type[Task] = ShopTask) -> Usage:
        client = table.tracker.connection().connection.client
        name: str = table.Meta.table_name
        return next(iter(dict(usages(client, name, ("task_id", "use_case_id"), iter([("", operate)]))).values()))

    def order(self, **options: Any) -> str:
        return Order.create(f"o-{next(self.numbers)}", **options).task_id

    def started(self, task_id: str) -> tuple[Any, Any]:
        run = Order.pay.start(task_id)
        return run, run.__enter__()

    def end(self, run: Any) -> Usage:
        return self.use(partial(run.__exit__, None, None, None))


@pytest.fixture(scope="module", autouse=True)
def started_engine() -> Iterator[None]:
    with engine() as how:
        if isinstance(how, str):
            pytest.skip(how)
        yield


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    for table in (ShopTask, FoundTask):
        table.tracker.table.reconnect()
        table.create_table(wait=True)
    yield Shop(count())
    for table in (ShopTask, FoundTask):
        table.delete_table()


class OnOneTask(ByTracker):
    def operations(self, data: dict[str, Any]) -> Iterator[Operation]:
        yield from settings.of_a_run(data)
        yield from settings.of_people(data)


class OnManyTasks(ByTracker):
    def operations(self, data: dict[str, Any]) -> Iterator[Operation]:
        yield from settings.of_many(data)


@pytest.fixture(scope="module")
def benched() -> Benched:
    """Measure each operation of the benchmarks with each size of data: by the library, in the row, and the settings.

    Operations on many tasks are measured with the smallest size alone, because creating the tasks takes long.
    """
    ways = {"library": ByTracker, "in the row": ByTrackerInRow, "settings": OnOneTask}
    found: Benched = {}
    for name, way in ways.items():
        made = way()
        sizes = [dict(measured(made, size)) for size in SIZES.values()]
        made.client.close()
        found[name] = {each: [of[each] for of in sizes] for each in sizes[0]}
    many = OnManyTasks()
    found["settings"] |= {name: [used] for name, used in measured(many, min(SIZES.values()))}
    many.client.close()
    return found


def cells(page: str, row: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    ((_, *found),) = [line for line in lines if line[0].strip() == row and not line[1].strip().startswith("**")]
    return [cell.strip() for cell in found]


def shown(*values: float) -> str:
    return "; ".join(f"{value:g}" for value in values)


def w(*used: Usage) -> str:
    return shown(*(each.write_units for each in used))


def figures(used: Usage) -> list[str]:
    return [shown(used.requests), shown(used.write_units), shown(used.read_units)]


def of_runs(shop: Shop) -> Iterator[tuple[str, list[str]]]:
    task_id = shop.order()
    with suppress(ConnectionError), Order.pay.start(task_id):
        raise ConnectionError
    retry, step = (shop.use(partial(each.run, task_id, nothing)) for each in (Order.pay, Order.ship))
    assert w(retry) == w(step)
    yield "each additional step, each retry", [w(step), "0"]
    with stopped_clock():
        Refund.create("r-1")
        limited = shop.use(partial(Refund.pay.run, "r-1", nothing))
    assert limited.requests == step.requests + 2
    more = limited.write_units - step.write_units
    yield "two more requests if `start`, `run` or a handler runs a limited step", [shown(more), "0"]
    limit = "[limit](../how-to/limit-what-runs-at-once.md)"
    yield f"a {limit}: taking, returning, and renewing a slot every 10 seconds", [f"{more / 2:g} each", "0"]
    parent, children = shop.order(), 3
    with Order.pay.start(parent) as ctx:
        for number in range(children):
            ctx.create(Order, f"{parent}/{number}", wait=True)
    family = shop.use(lambda: family_of(read_task(Order, parent))).read_units
    yield "a blocked task, however long it waits", ["0", "0"]
    yield "`show` of a parent", ["0", f"{family - children:g}, and 1 for each child"]
    created = shop.use(partial(Found.create, "f-1", customer="c-1"), FoundTask).write_units - 2
    change = shop.use(lambda: Found.work.run("f-1", lambda ctx: setattr(ctx.task, "customer", "c-2")), FoundTask)
    find_by = "[`FindBy`](../how-to/store-and-find-data.md#find-the-orders-of-a-customer)"
    yield f"creating a task with a {find_by} value, in addition", [shown(created), "0"]
    changed = shown(change.write_units - 6)
    yield "changing that value", [changed, "0"]
    told = f"Setting the attribute at `create` costs {shown(created)} more write unit, and changing it costs {changed}."
    assert told in text_of("docs/how-to/store-and-find-data.md")


def of_events(shop: Shop) -> Iterator[tuple[str, list[str]]]:
    one = handles(Order.pay, task_id="id", create_if_missing=True)(nothing)
    event = {"id": f"e-{next(shop.numbers)}"}
    created, repeated = (shop.use(partial(one, event, None)) for _ in range(2))
    batch = handles(Order.pay, task_id="id", create_if_missing=True, create_first=True)(nothing)
    *several, again = (
        shop.use(partial(batch, sqs_event({"id": f"{event}-{number}"}, {"id": f"{event}-{number}-2"}), None))
        for number in (0, 1, 2, 2)
    )
    first = min(several, key=lambda used: used.write_units)  # one of them finds out whether the engine takes batches
    assert again.read_units <= 2  # a refused create reads the row, unless it was sent alone
    assert created.read_units == first.read_units
    yield "an event that creates its task and runs it", [w(created), shown(created.read_units)]
    yield "the same with `create_first`", [shown(first.write_units / 2), shown(first.read_units)]
    yield "a repeated event with `create_if_missing`", [w(repeated), shown(repeated.read_units)]
    yield "the same with `create_first`, repeated", [shown(again.write_units / 2), "up to 1"]


def of_signals(shop: Shop) -> Iterator[tuple[str, list[str]]]:
    with stopped_clock() as clock:
        undecided = shop.order(wait_for=Order.paid, until=MINUTE)
        clock.advance(2 * MINUTE)
        Order.pay.run(undecided, nothing)
        effects = list[str]()
        late = shop.use(lambda: effects.append(Order.paid.send(undecided, 1).effect))
    assert effects == ["late"]
    task_id, other = shop.order(wait_for=Order.paid), shop.order()
    due, early, again = (shop.use(partial(Order.paid.send, each, 1)) for each in (task_id, other, other))
    assert figures(late) == figures(again)
    signal = "[signal](../how-to/wait-for-a-signal.md)"
    yield f"a {signal} that makes a task due", [w(due), shown(due.read_units)]
    yield "another signal", [w(early), shown(early.read_units)]
    yield "a repeated or late signal", [w(again), shown(again.read_units)]


def of_people(shop: Shop) -> Iterator[tuple[str, list[str]]]:
    one = shop.use(partial(Order.cancel, shop.order(), reason="by phone"))
    yield "`cancel`", [w(one), shown(one.read_units)]
    few, many = (cancel_with(shop, number) for number in (1, 3))
    writes, reads = ((getattr(many, each) - getattr(few, each)) / 2 for each in ("write_units", "read_units"))
    assert reads == 1
    own = [f"{few.write_units - writes:g} + {writes:g}*k*", f"{few.read_units - reads:g} + *k*"]
    yield "`cancel` with *k* children", own


def cancel_with(shop: Shop, children: int) -> Usage:
    run, ctx = shop.started(shop.order())
    for child in range(children):
        ctx.create(Order, f"{ctx.task.task_id}/{child}", wait=True)
    shop.end(run)
    return shop.use(partial(Order.cancel, ctx.task.task_id, reason="by phone", children=True))


def of_merging(shop: Shop) -> Iterator[tuple[str, list[str]]]:
    later: dict[str, Any] = {"due_time": timedelta(hours=1)}
    task_id = shop.order(**later)
    yield "`create_or_merge` creates the task", figures(shop.use(partial(Order.create_or_merge, f"{task_id}/new")))
    merged = shop.use(partial(Order.create_or_merge, task_id, note="new", merge=take_the_new_note, **later))
    task_id = shop.order(state=Order.ship.pending)
    run = Order.ship.start(task_id)
    claim = shop.use(run.__enter__)
    requested = shop.use(partial(Order.create_or_merge, task_id))
    assert figures(merged) == figures(requested)
    yield "it merges, or arrives during a run", figures(merged)
    end = shop.end(run)
    both = [getattr(claim, each) + getattr(end, each) for each in ("requests", "write_units", "read_units")]
    yield "a run, if requests arrived during it", [shown(each) for each in both]
    yield from of_repeats(shop)
    yield from of_children(shop)
    yield from of_groups(shop)


def of_repeats(shop: Shop) -> Iterator[tuple[str, list[str]]]:
    with stopped_clock() as clock:
        created = shop.use(partial(Nightly.create, "n-1", repeat=Repeat.every(MINUTE)))
        one = shop.use(partial(Nightly.work.run, "n-1", nothing))
        clock.advance(10 * MINUTE)
        late = shop.use(partial(Nightly.work.run, "n-1", nothing))
    yield "a rule, in addition", [shown(created.requests - 1), f"{created.write_units - 2:g} per KB", "0"]
    yield "an occurrence of a repeating task", [shown(one.requests), w(one), "0"]
    yield "the same, after missed occurrences", [shown(late.requests), w(late), "0"]


def of_children(shop: Shop) -> Iterator[tuple[str, list[str]]]:
    names = {
        False: "success with *k* follow-ups",
        True: "success with *k* children, including 2 for each KB of their list, at most 10",
    }
    for wait, name in names.items():
        few, many = (success_with(shop, number, wait=wait) for number in (1, 3))
        each = (many.write_units - few.write_units) / 2
        assert few.requests == many.requests
        yield name, [shown(few.requests), f"{few.write_units - each:g} + {each:g}*k*", "0"]
    run, ctx = shop.started(shop.order())
    for number in range(2):
        ctx.create(Nightly, f"{ctx.task.task_id}/{number}", wait=True)
    shop.end(run)
    ends = []
    for number in range(2):
        child = Nightly.work.start(f"{ctx.task.task_id}/{number}")
        child.__enter__()
        ends.append(shop.end(child))
    for name, end in zip(("a child's success", "the last child's success"), ends, strict=True):
        yield name, figures(end)


def success_with(shop: Shop, number: int, *, wait: bool) -> Usage:
    run, ctx = shop.started(shop.order())
    for child in range(number):
        ctx.create(Order, f"{ctx.task.task_id}/{child}", wait=wait)
    return shop.end(run)


def of_groups(shop: Shop) -> Iterator[tuple[str, list[str]]]:
    for number in range(2):
        Nightly.create(f"g-{number}", group="g")
    ends = []
    for number in range(2):
        run = Nightly.work.start(f"g-{number}")
        run.__enter__()
        ends.append(shop.end(run))
    hands_on, alone = ends
    assert alone.requests == hands_on.requests
    yield "a group task's end, if nobody waits", figures(alone)
    yield "a group task's end that passes the turn on", figures(hands_on)


@pytest.mark.parametrize("rows", [of_runs, of_events, of_signals, of_people, of_merging])
def test_each_operation_costs_what_the_page_says(shop: Shop, rows: Rows) -> None:
    found = dict(rows(shop))
    assert {row: cells(PAGE, row) for row in found} == found


def test_each_setting_that_is_a_benchmark_costs_what_the_page_says(benched: Benched) -> None:
    small = {name: used[0] for name, used in (benched["settings"] | benched["library"]).items()}
    run, refused = small["run"], small["refused, with the reason"]
    other = small["a failure of another kind"]
    beat, save = small["extend_lock, or a beat"], small["save of an attribute"]
    own, committed = small["transaction of its own, empty"], small["run with transaction(succeed=True)"]
    kb = [
        used[1].write_units - used[0].write_units
        for name, used in benched["in the row"].items()
        if name in {"create", "run"}
    ]
    assert beat.write_units == save.write_units
    expected = {
        "a different failure after it": [w(other), shown(other.read_units)],
        "each additional started KB of the row": [f"1 per write: {sum(kb) / 2:g} for create and run", "0"],
        "a heartbeat, `extend_lock` or `save`": [f"{w(beat)} each", "0"],
        "`transaction()`, in addition to the run": [w(own) + OF_OWN, "0"],
        "`transaction(succeed=True)`, including the claim": [f"{w(committed)} instead of {w(run)}{OF_OWN}", "0"],
        "a refused claim, and its reason": [w(refused), shown(refused.read_units)],
        "`reopen`": [w(small["reopen"]), "0"],
    }
    assert {row: cells(PAGE, row) for row in expected} == expected


def test_the_readme_says_what_a_run_takes(benched: Benched) -> None:
    small = {name: used[0] for name, used in benched["library"].items()}
    run, failing, first = small["run"], small["failing run"], small[LONG]
    assert cells("README.md", "create") == [shown(small["create"].requests), shown(small["create"].write_units)]
    assert cells("README.md", "run: claim and finish") == [shown(run.requests), shown(run.write_units)]
    assert cells("README.md", "run that fails") == [shown(failing.requests), shown(failing.write_units)]
    assert cells("README.md", "run that fails with a new, long traceback") == [
        shown(first.requests),
        shown(first.write_units),
    ]
    assert (small[AGAIN].requests, small[AGAIN].write_units) == (failing.requests, failing.write_units)
    refused = small["refused, with the reason"]
    assert cells("README.md", "refused claim, with its reason") == [
        shown(refused.requests),
        f"{shown(refused.write_units)}, and {shown(refused.read_units)} read unit",
    ]


def test_the_page_says_what_failures_and_large_data_take(benched: Benched) -> None:
    found = benched["library"]
    assert cells(PAGE, f"a {LONG}") == [shown(found[LONG][0].write_units), "0"]
    assert cells(PAGE, AGAIN) == [shown(found[AGAIN][0].write_units), "0"]
    assert cells(PAGE, "create") == [shown(each.write_units) for each in found["create"]]
    assert cells(PAGE, "run that does not use it") == [shown(each.write_units) for each in found["run"]]
    assert cells(PAGE, "run that changes it") == [both(each) for each in found["run that adds to data"]]


def test_a_failure_costs_the_same_whatever_the_size_of_the_data(benched: Benched) -> None:
    for name, expected in {"failing run": (2, 6), LONG: (3, 7), AGAIN: (2, 6)}.items():
        assert {(each.requests, each.write_units) for each in benched["library"][name]} == {expected}


def test_data_costs_what_the_page_says(benched: Benched) -> None:
    further, in_row = benched["settings"], benched["in the row"]
    expected = {
        "run that reads it": [both(each) for each in further["run that reads data"]],
        "`get_task`, whether `data` is used or not": [
            f"0 and {each.read_units:g}" for each in further["get_task, data read"]
        ],
        "`delete_task`": [f"{w(each)} and {each.read_units:g}" for each in further["delete_task"]],
        "**all in the row**: create": [w(each) for each in in_row["create"]],
        "**all in the row**: any run": [w(each) for each in in_row["run that adds to data"]],
    }
    assert further["get_task, data read"] == further["get_task, data not touched"]
    assert {row: cells(PAGE, row) for row in expected} == expected


def both(used: Usage) -> str:
    return " and ".join(map(shown, filter(None, (used.write_units, used.read_units))))


def test_a_million_tasks_cost_what_their_units_cost(benched: Benched) -> None:
    run, beat = benched["library"]["run"][0], benched["settings"]["extend_lock, or a beat"][0]
    beats = timedelta(hours=1) / (5 * MINUTE / 3) * beat.write_units
    large = benched["library"]["create"][2].write_units + benched["library"]["run"][2].write_units
    units = {steps: sum(write_units(Load(rate=1, steps=steps))) for steps in (1, 3)}
    assert units[1] == benched["library"]["create"][0].write_units + run.write_units
    expected = {
        "create, and run one step": [shown(units[1]), price(units[1])],
        "create, and run three steps": [shown(units[3]), price(units[3])],
        "run for an hour with a heartbeat, `lock_for` of 5 minutes": [
            f"{w(run)} and about {beats:g}",
            price(run.write_units + beats),
        ],
        "create with 20 KB of data, and run one step": [shown(large), price(large)],
    }
    assert {row: [each.strip("*") for each in cells(PAGE, row)] for row in expected} == expected


def price(units: float) -> str:
    return f"${dollars(writes=units * 1_000_000) + 1e-9:,.2f}"


def test_other_pages_give_the_price_of_a_million_orders() -> None:
    prices = {steps: price(sum(write_units(Load(rate=1, steps=steps)))) for steps in (1, 3)}
    for page in ("README.md", "docs/comparison.md"):
        assert cells(page, "a million orders with three steps")[0].startswith(f"[{prices[3]}]")
    assert f"A million tasks with one step cost about {prices[1].removesuffix('.00')}." in text_of("README.md")


def test_reading_many_costs_what_the_page_says(shop: Shop) -> None:
    state = Nightly.work.ignored
    create_many(Nightly, range(50), state=state)
    page = shop.use(state.index_page).read_units
    assert cells(PAGE, "`index_page`") == [f"0.5 for about 20 tasks: {page:g} for 50"]
    create_many(Nightly, range(50, 1000), state=state)
    counted, bounded = (shop.use(each).read_units for each in (state.count, partial(state.count, up_to=1000)))
    assert counted == bounded == pytest.approx(23, abs=0.5)  # by the length of ids
    price_of_a_million = f"about 23 for 1,000 and 23,000 for a million: ${dollars(reads=23_000):.3f}"
    assert cells(PAGE, "`count` of a state")[0].endswith(price_of_a_million)
    assert cells(PAGE, "`count(up_to=1000)` of a state")[0].startswith("about 23 at most, ")
    create_many(Found, range(80), customer="c-9")
    found = shop.use(lambda: list(Found.by_customer.query("c-9")), FoundTask).read_units
    assert cells(PAGE, "`query`, `page` of a `FindBy`")[0].startswith(
        f"0.5 for about {80 * 0.5 / (found - 80):g} entries"
    )


def create_many(of: type[Task], numbers: range, **each: Any) -> None:
    of.create_many(({"task_id": f"m-{number}", **each} for number in numbers), threads=4)


def test_queries_and_idle_workers_cost_what_the_page_says(benched: Benched) -> None:
    used, text = benched["settings"], text_of(PAGE)
    ten, sharded = used["query of 10, without data"][0], used["query of 10, without data, 5 shards"][0]
    cost = f"{ten.requests} requests and {ten.read_units:g} read units"
    assert f"took {cost}, and of 5 shards {sharded.requests} requests and {sharded.read_units:g}." in text
    assert cells(PAGE, "`count` of a state")[0].startswith(f"{used['count of 100'][0].read_units:g} for 100 tasks, ")
    assert f"at most {IDLE_READS:,} read units per hour, step and shard" in text
    assert f"about ${dollars(reads=IDLE_READS * 730):.2f} a month" in text
    assert size_for(Load(rate=1)).idle_worker_dollars_per_month == pytest.approx(dollars(reads=IDLE_READS * 730))
    of_pauses = dollars(reads=0.5 * timedelta(hours=730) / watch.INTERVAL)
    assert f"every {watch.INTERVAL.seconds} seconds, or {of_pauses * 100:.0f} cents a month" in text


def test_the_page_gives_the_prices_by_which_dollars_are_calculated() -> None:
    prices = [dollars(writes=1_000_000), dollars(reads=1_000_000)]
    assert "${:g} per million write units and ${:g} per million read units".format(*prices) in text_of(PAGE)


def text_of(page: str) -> str:
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


def printed(name: str) -> list[list[str]]:
    """Return the rows of the table that `make bench` has printed last, as cells."""
    lines = (PRINTED / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [re.split(r" {2,}", line) for line in lines]


def test_alternatives_cost_what_the_benchmark_has_printed() -> None:
    units = {(row[0], row[1]): row[3:7] for row in printed("cost") if len(row) > 6}
    ways = ("pynamodb_tracker", "botocore by hand", "pynamodb_mate", "Powertools idempotency")
    for name, size in {"0.2 KB": 0, "20 KB": 2, "200 KB": 3}.items():
        sums = [
            sum(
                int(units[each, way][size])
                for each in ("create", "run that adds to data" if "Powertools" in way else "run")
                if (each, way) in units
            )
            for way in ways
        ]
        assert [int(re.findall(r"\d+", cell)[0]) for cell in cells(PAGE, f"create and run, {name}")] == sums
    of_small = {
        way: sum(int(units[each, way][0]) for each in ("create", "run") if (each, way) in units) for way in ways
    }
    million = cells("docs/comparison.md", "a million orders with three steps")
    assert million[1] == f"no steps, {price(of_small[ways[3]])} for a million calls"
    assert (million[5], of_small[ways[3]] * 4) == (f"{price(of_small[ways[2]])} for one step", of_small[ways[0]])
    assert "It costs a quarter." in text_of("docs/comparison.md")
    refused = [units["refused claim", way][2].strip("*") for way in ways[:3]]
    refused.append(units["refused, with the reason", ways[3]][2].strip("*"))
    assert cells(PAGE, "refused claim, 20 KB") == refused


def test_the_ratios_of_cpu_are_those_that_the_benchmark_has_printed() -> None:
    header, *rows = [row for row in printed("cpu") if len(row) > 6]
    rows = [row for row in rows if row[0] in SIZES]
    ratios = {name: [float(row[at]) for row in rows] for at, name in enumerate(header[:-1]) if at > 1}
    own = ratios["pynamodb_tracker"]
    large = [
        ratio for row, ratio in zip(rows, own, strict=True) if row[0] in {"20 KB", "200 KB"} and "nothing" not in row[1]
    ]
    text = text_of(PAGE)
    others = [ratio for ratio in own if ratio not in large]
    assert f"{min(others):.1f} to {max(others):.1f} times the client CPU time" in text
    assert f"up to {max(own):.1f} times if it changes large" in text
    for name, words in {
        "pynamodb_mate": "pynamodb_mate takes {} times",
        "Powertools idempotency": "Powertools {}.",
    }.items():
        assert words.format(f"{min(ratios[name]):.1f} to {max(ratios[name]):.1f}") in text
