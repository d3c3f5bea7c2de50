"""A limit, a default or a time on a page is the library's own.

The figures of the page about cost are compared in tests/cost, and those of a pipeline in tests/infra.
"""

import inspect
import re
import tomllib
import zlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from pynamodb_tracker import Step, Task, UseCase, Worker
from pynamodb_tracker.apscheduler import DynamoDBJobStore
from pynamodb_tracker.aws_lambda import invocation
from pynamodb_tracker.control import flow, limit, records, watch
from pynamodb_tracker.doctor import settings
from pynamodb_tracker.dynamodb import batch_execute, connection, limits, retries, side_by_side, write_batcher
from pynamodb_tracker.execution import context, transaction
from pynamodb_tracker.features import checkpoints, merges
from pynamodb_tracker.features.children import follow_ups, joins
from pynamodb_tracker.features.groups import records as group_records
from pynamodb_tracker.model import (
    changes,
    failure_log,
    overflow,
    recent_ends,
    references,
    row,
    schema,
    signals,
    strict_json,
)
from pynamodb_tracker.model.cost import NEW_TABLE_UNITS, PARTITION_UNITS, QUOTA_UNITS, Load, size_for, write_units
from pynamodb_tracker.presentation import glance
from pynamodb_tracker.task import metaclass
from pynamodb_tracker.testing import local_table
from pynamodb_tracker.transitions import cancelling, claims, ending
from pynamodb_tracker.web import dashboard
from pynamodb_tracker.work import source
from pynamodb_tracker.worker import team
from tests.benchmarks.orders import data_of, text_of
from tests.engine import dynoxide
from tests.support.pages import ROOT, Page
from tests.support.rows import client, item_bytes, stored

MB = 1024 * 1024


def seconds(time: timedelta) -> str:
    return f"{time.total_seconds():g}"


def default(function: Callable[..., Any], name: str) -> Any:
    return inspect.signature(function).parameters[name].default


def most_tasks_in_groups(taken: int) -> int:
    """Return how many tasks a success can create in groups if so many of its actions are taken."""
    return (follow_ups._MOST_WITH_SUCCESS - 1 - taken) // (1 + follow_ups._FOR_GROUP)


META = metaclass._META_DEFAULTS
MARGIN = seconds(schema._MARGIN)
TIMEOUT = META["connect_timeout_seconds"] + META["read_timeout_seconds"]
TRIES_OF_SDK = 4  # PynamoDB's default of max_retry_attempts is 3
RETRIES = retries.TRIES - 1
LONGEST_PAUSE = 0.05 * 2 ** (RETRIES - 1)  # seconds, of pauses that begin with 50 ms and double
FIRST_ROWS = follow_ups._MOST_WITH_SUCCESS
LONGEST_PERSISTING = default(retries.slept_before_retry, "longest")
WORDS = {3: "three", 4: "four", 5: "five", 10: "ten"}
HALF_A_SECOND = {0.5: "half a second"}

SENTENCES: dict[str, list[str]] = {
    "contributing.md": [f"dynoxide {dynoxide.VERSION} on the `PATH`", f"{dynoxide.CRATE}, which cargo builds once"],
    "explanation/cost.md": [
        f"`max_inline_data` bytes, {default(UseCase, 'max_inline_data'):,} by default",
        f"one write unit per {flow._MOST} transitions or {flow._LONGEST.seconds // 60} minutes",
        f"half a unit per use case every {seconds(watch.INTERVAL)} seconds",
    ],
    "explanation/guarantees.md": [
        f"uses no attempt up to {ending._MOST_POSTPONED:,} times",
        f"a release uses none up to {ending._MOST_RELEASES} times",
        f"If there are more than {FIRST_ROWS}, the first ones are created",
        f"less than the margin, {MARGIN} seconds by default",
    ],
    "explanation/life-of-a-task.md": [f"After {ending._MOST_RELEASES} releases without a success"],
    "explanation/lock.md": [
        f"{FIRST_ROWS} rows, the first ones are put before, {follow_ups._MOST_BEFORE} at a time",
        f"`unfinished` is full, with {ending._KEPT_FENCES} fences",
        f"the last {merges._KEPT_TOKENS} `request_tokens`",
        f"Clocks may differ by a margin, {MARGIN} seconds by default",
        f"claim again with a greater token, up to {WORDS[claims._TRIES]} times",
        f"it is extended up to {WORDS[context.TRIES]} times",
    ],
    "explanation/network.md": [
        f"are sent up to {RETRIES} more times after throttling",
        f"up to {LONGEST_PAUSE * 1000:g} ms, or {LONGEST_PERSISTING:g} seconds for a result",
        f"{HALF_A_SECOND[invocation._TIME_TO_ANSWER.total_seconds()]} before a Lambda invocation ends",
        f"{HALF_A_SECOND[retries.SHORTEST_TIMEOUT]}. A result is sent even after its lock has expired",
        f"four tries take up to {TRIES_OF_SDK * TIMEOUT} seconds",
        f"up to {batch_execute.MOST} claims and results in one",
        f"waits at most {write_batcher._LONGEST_WAIT * 1000:g} ms for others",
        f"reads the row for up to {seconds(claims._GIVE_BACK_WITHIN)} seconds",
        f"`max_retry_attempts = 2` add up to {(1 + 2) * (1 + 1)} seconds",
    ],
    "explanation/scale.md": [
        f"DynamoDB supports [{PARTITION_UNITS:,} write units per second per partition]",
        f"4 *A* λ / {PARTITION_UNITS:,}, rounded up | two writes per attempt",
        f"at half of a key's {PARTITION_UNITS:,} units",
        f"at most {PARTITION_UNITS // 2} attempts per second and step",
        f"A query reads all shards, up to {side_by_side._THREADS} at a time",
        f"A new table has [{NEW_TABLE_UNITS:,} write units per second]",
        f"have [{QUOTA_UNITS:,} write units per second by default]",
    ],
    "explanation/table.md": [
        f"the last {merges._KEPT_TOKENS} tokens",
        f"The last successes, at most {recent_ends._MOST},",
        f"Failures take at most about {failure_log.MAX_BYTES} bytes in the row",
        f"people's last {records._MOST_COMMANDS} commands",
        f"`max_inline_data` bytes, {default(UseCase, 'max_inline_data'):,} by default",
        f"If failures exceed {failure_log.MAX_BYTES} bytes, the last {WORDS[failure_log.MAX_FAILURES]} are in",
        f"as many as fit into {joins._MOST_BYTES // 1024} KB",
        f"up to {connection.MOST_KEYS} rows in one strongly consistent BatchGetItem",
    ],
    "how-to/cancel-and-refund.md": [f"Up to {cancelling.MOST_ACTIONS} tasks, including children of children"],
    "how-to/chain-steps-and-tasks.md": [
        f"Up to {FIRST_ROWS} follow-ups are written in one transaction",
        f"A step can create at most {FIRST_ROWS - 1} children",
    ],
    "how-to/deploy-a-new-version.md": [
        f"The first command takes effect after {seconds(watch.INTERVAL)} seconds",
        f"0.9 writes format {row.FORMAT}.",
    ],
    "how-to/deploy-the-table.md": [f"12,000 read, {NEW_TABLE_UNITS:,} write"],
    "how-to/exactly-once.md": [f"It can have {transaction._MOST_ACTIONS} writes, including the task"],
    "how-to/index.md": [f"`threads=25` for up to {batch_execute.MOST} tasks per request"],
    "how-to/keep-an-order.md": [
        f"up to {group_records.MAX_DATA_BYTES:,} bytes of JSON",
        f"up to {most_tasks_in_groups(0)} tasks with",
        f"or {most_tasks_in_groups(follow_ups._FOR_OWN_GROUP)} if its own task is in a group",
    ],
    "how-to/lambda.md": [
        f"expires {['one'][invocation._LOCK_MARGIN.seconds - 1]} second after the invocation's timeout"
    ],
    "how-to/limit-what-runs-at-once.md": [
        f"Handlers wait up to {seconds(invocation._SLOT_WAIT)} seconds",
        f"looks again within {seconds(source._LONGEST_LOOK)} seconds",
        f"free after {seconds(limit.LIFETIME + schema._MARGIN)} seconds",
        f"The pause takes effect within {seconds(watch.INTERVAL)} seconds",
        f"503 with Retry-After, at most {['a minute'][invocation._ASK_AGAIN.seconds // 60 - 1]}",
    ],
    "how-to/long-runs.md": [
        f"JSON of at most {checkpoints._MOST_BYTES:,} bytes, and a task has room for {checkpoints._MOST_IN_ALL:,} bytes"
    ],
    "how-to/monitor.md": [f"at most {references.MAX_TRACE_BYTES} bytes"],
    "how-to/process-sqs-batches.md": [f"{sum(write_units(Load(rate=1, steps=0))):g} write units per new task"],
    "how-to/retry-and-reopen.md": [f"the {ending._MOST_POSTPONED + 1:,}st postponement counts"],
    "how-to/run-a-worker.md": [
        f"touches the `--health-file` every {WORDS[int(team._SIGN_INTERVAL)]} seconds",
        f"`grace` time to finish, {seconds(default(Worker, 'grace'))} seconds by default",
        f"`max_poll_interval`, {seconds(default(Worker, 'max_poll_interval'))} seconds by default",
    ],
    "how-to/store-and-find-data.md": [
        f"up to {overflow.MAX_BYTES // MB} MB of JSON, or {changes.MAX_AT_ONCE / 1_000_000:g} MB, compressed",
        f"nested up to {strict_json.MAX_DEPTH} levels deep",
        f"up to {limits.MAX_DIGITS} digits exactly",
        f"More than {limits.MAX_KEY_BYTES:,} bytes raise",
    ],
    "how-to/troubleshoot.md": [
        f"Their clocks differ by more than {MARGIN} seconds",
        f"The row is larger than {limits.MAX_ITEM_BYTES // 1024} KB",
        f"`data` is larger than {overflow.MAX_BYTES // MB} MB",
    ],
    "how-to/use-asyncio.md": [f"would be released {ending._MOST_RELEASES} times"],
    "how-to/wait-for-a-signal.md": [f"A value is JSON of at most {signals.MAX_BYTES // 1024} KB"],
    "how-to/watch-in-a-browser.md": [
        f"people's last {records._MOST_COMMANDS} commands",
        f"It counts a state up to {glance.MOST} tasks".replace("1000", "1,000"),
        f"`refresh`, {seconds(default(dashboard, 'refresh'))} seconds by default",
    ],
    "reference/apscheduler.md": [
        f"a takeover takes {seconds(default(DynamoDBJobStore, 'lock_for') + schema._MARGIN)} seconds"
    ],
    "reference/doctor.md": [f"Capacity for less than {settings._LOW_RATE} tasks per second"],
    "reference.md": [
        f"| `clock_margin` | {MARGIN} seconds |",
        f"| `max_pool_connections` | {META['max_pool_connections']} |",
        f"| {META['connect_timeout_seconds']}, {META['read_timeout_seconds']} | [Shorter]",
        f"often at most {invocation._LOOK_AGAIN.seconds}, unless it waits for others",
        f"at most {invocation._ASK_AGAIN.seconds} if paused",
    ],
    "tutorial.md": [f"plus {MARGIN} seconds in case clocks differ"],
}
"""By page, what it says, with the library's own figures."""


@pytest.mark.parametrize("page", SENTENCES)
def test_a_page_says_the_figures_of_the_library(page: str) -> None:
    text = " ".join(" ".join(Page(ROOT / "docs" / page).prose()).split())
    assert [sentence for sentence in SENTENCES[page] if sentence not in text] == []


def test_scale_says_up_to_which_load_a_new_table_is_enough() -> None:
    text = " ".join(Page(ROOT / "docs" / "explanation" / "scale.md").prose())
    assert "A new table handles about 250 tasks per second with one step each." in text
    assert "From about 2,600 tasks per second on, you also need a higher quota." in text
    enough, beyond = size_for(Load(rate=250)), size_for(Load(rate=300))
    assert (enough.shards, enough.warm_index_units, enough.warm_table_units) == (1, None, None)
    assert beyond.shards > 1
    assert beyond.warm_index_units is not None
    assert size_for(Load(rate=2600)).quota_units is None
    assert size_for(Load(rate=2700)).quota_units is not None


@pytest.mark.parametrize("load", [Load(rate=1), Load(rate=1000, steps=3, attempts=1.1)])
def test_scale_gives_the_formulas_by_which_units_are_calculated(load: Load) -> None:
    text = " ".join(Page(ROOT / "docs" / "explanation" / "scale.md").prose())
    assert "| table write units | λ (1 + 2 *n* *A*), per started KB of the row |" in text
    assert "| index write units | λ (1 + 4 *n* *A*) |" in text
    runs = load.steps * load.attempts
    assert write_units(load) == pytest.approx((load.rate * (1 + 2 * runs), load.rate * (1 + 4 * runs)))


class FigureTask(Task):
    class Meta:
        table_name = "figures"


class Order(FigureTask):
    use_case_id = UseCase("order")

    ship = Step(100)


def test_a_row_and_its_index_entry_have_about_the_size_that_the_page_says() -> None:
    text = " ".join(Page(ROOT / "docs" / "explanation" / "table.md").prose())
    told = re.search(
        r"A new row takes about (\d+) bytes, a claimed row about (\d+), and an index entry about (\d+)", text
    )
    assert told
    with local_table(FigureTask):
        Order.create("o-1")
        new = stored(Order, "o-1")
        [entry] = client(Order).scan(TableName=FigureTask.Meta.table_name, IndexName="status-index")["Items"]
        with Order.ship.start("o-1") as ctx:
            claimed = stored(Order, "o-1")
            assert len(ctx.idempotency_key) == 36
    sizes = [item_bytes(each) for each in (new, claimed, entry)]
    assert sizes == pytest.approx([int(each) for each in told.groups()], rel=0.1)
    key = " ".join(Page(ROOT / "docs" / "how-to" / "exactly-once.md").prose())
    assert "`ctx.idempotency_key` has 36 characters" in key


def requests_of_now(number_of_steps: int) -> int:
    """Return how many requests the first page takes, by its own foot."""

    class NowTask(Task):
        class Meta:
            table_name = "now"

    steps = {f"step_{number}": Step(100 * (number + 1)) for number in range(number_of_steps)}
    make: Any = type(Task)
    use_case = make("Now", (NowTask,), {"use_case_id": UseCase("now"), **steps})
    with local_table(NowTask):
        answer = TestClient(dashboard(use_case, user=lambda _: "ada")).get("/")
    [found] = re.findall(r"(\d+) requests", answer.text)
    return int(found)


def test_the_page_now_takes_the_requests_per_step_that_are_told() -> None:
    text = " ".join(Page(ROOT / "docs" / "how-to" / "watch-in-a-browser.md").prose())
    assert f"The page Now takes {requests_of_now(3) - requests_of_now(2)} requests per step." in text


def test_the_data_that_is_measured_shrinks_as_the_page_says() -> None:
    assert "which shrinks to a fifth" in " ".join(Page(ROOT / "docs" / "explanation" / "cost.md").prose())
    for size in (2_000, 20_000, 200_000):
        assert len(zlib.compress(text_of(data_of(size)).encode())) / size == pytest.approx(1 / 5, rel=0.2)


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_pages_name_the_versions_that_are_required_and_compared() -> None:
    python = PROJECT["requires-python"].removeprefix(">=")
    for page in ("README.md", "docs/contributing.md"):
        assert f"Python {python} or later" in (ROOT / page).read_text(encoding="utf-8")
    compared = dict(re.split("[~=]=", each) for each in PROJECT["optional-dependencies"]["bench"])
    powertools, mate = compared["aws-lambda-powertools"], compared["pynamodb-mate"]
    table = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    assert f"idempotency {powertools} |" in table
    assert f"(https://pypi.org/project/pynamodb_mate/) {mate[:3]} |" in table
    assert f"pynamodb_mate {mate[:5]}," in (ROOT / "docs" / "explanation" / "cost.md").read_text(encoding="utf-8")
    module = (ROOT / "infra" / "terraform" / "main.tf").read_text(encoding="utf-8")
    terraform, provider = re.findall(r'version = ">= ([\d.]+)', module)
    deploy = (ROOT / "docs" / "how-to" / "deploy-the-table.md").read_text(encoding="utf-8")
    assert f"You need Terraform {terraform} and the AWS provider {provider}, or later" in deploy


def test_contributing_says_how_many_processes_race() -> None:
    text = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
    race = (ROOT / "tests" / "race" / "test_race.py").read_text(encoding="utf-8")
    told = re.search(r"\[(\d+) processes on (\d+) tasks\]\(../tests/race/test_race.py\)", text)
    assert told
    assert f"def test_{told[1]}_processes_run_each_of_{told[2]}_tasks_exactly_once(" in race
