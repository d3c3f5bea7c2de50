"""How a store is made, and what it says of settings that do not work."""

import pickle
import sys
import tomllib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint
from typing import Any
from unittest import mock

import pytest
from apscheduler.job import Job
from apscheduler.schedulers.background import BackgroundScheduler
from pynamodb.exceptions import TableDoesNotExist

from pynamodb_tracker import Task
from pynamodb_tracker.apscheduler import DynamoDBJobStore, PickleSerializer
from tests.apscheduler.jobs import due, new_job, new_store
from tests.support.engines import only_moto
from tests.support.network import unreached
from tests.support.pages import ROOT
from tests.support.shop import AppTask, Order

pytestmark = [pytest.mark.usefixtures("table", "clock"), only_moto]

REFERENCE = "tests.support.shop:AppTask"


def test_a_table_is_a_class_or_a_reference_to_one() -> None:
    new_store(Order).add_job(new_job())
    assert due(new_store(REFERENCE)) == ["j-1"]  # type: ignore[arg-type]  # a store takes either


def test_the_alias_of_the_entry_point_makes_a_store() -> None:
    scheduler = BackgroundScheduler(timezone=UTC)
    group = "apscheduler.jobstores"
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][group]
    entry = EntryPoint("dynamodb", declared["dynamodb"], group)
    with mock.patch.dict(scheduler._jobstore_plugins, dynamodb=entry):
        scheduler.add_jobstore("dynamodb", table=REFERENCE, store="billing")
    assert repr(scheduler._jobstores["default"]) == "<DynamoDBJobStore (AppTask, store='billing')>"


def test_stores_of_other_names_share_no_jobs() -> None:
    billing, default = new_store(store="billing"), new_store()
    for store in (billing, default):
        store.add_job(new_job())
    billing.remove_all_jobs()
    assert due(default) == ["j-1"]


@pytest.mark.parametrize(
    ("settings", "kind", "message"),
    [
        ({"table": Task}, TypeError, "write AppTask, or a reference such as 'shop.tasks:AppTask'"),
        ({"table": "tests.apscheduler.jobs:nothing"}, TypeError, "table must be your table's class, not 'tests"),
        ({"table": "tests.support.shop.AppTask"}, TypeError, "table must be .* such as 'shop.tasks:AppTask'"),
        ({"table": AppTask, "store": ""}, ValueError, "a name of a store has 1 to 1024 bytes"),
        ({"table": AppTask, "serializer": PickleSerializer}, TypeError, r"write PickleSerializer\(\)"),
        ({"table": AppTask, "lock_for": 60}, TypeError, "lock_for must be a timedelta"),
        ({"table": AppTask, "look_every": timedelta(0)}, ValueError, "look_every must be above zero"),
    ],
    ids=["no table", "no class", "no colon", "no name", "no instance", "no duration", "no time at all"],
)
def test_impossible_settings_send_no_request(settings: dict[str, Any], kind: type[Exception], message: str) -> None:
    with unreached(), pytest.raises(kind, match=message):
        DynamoDBJobStore(**settings)


def test_a_table_that_does_not_exist_is_named_with_what_to_do() -> None:
    store = new_store()
    calls: list[Callable[[], object]] = [store.get_next_run_time, store.remove_all_jobs, lambda: due(store)]
    calls += [partial(store.add_job, new_job()), partial(store.add_job, new_job(next_run_time=None))]
    with mock.patch.object(AppTask.Meta, "table_name", "no-such-table"):
        for call in calls:
            with pytest.raises(TableDoesNotExist, match=r"'no-such-table' does not exist in us-east-1 .*create_table"):
                call()


@pytest.mark.parametrize(
    ("grace", "warnings"), [(1, 1), (62, 1), (63, 0), (None, 0)], ids=["default", "too short", "longer", "unlimited"]
)
def test_a_grace_time_that_a_takeover_exceeds_is_warned_of_at_the_start(
    grace: int | None, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = BackgroundScheduler(timezone=UTC, job_defaults={"misfire_grace_time": grace})
    new_store(scheduler=scheduler, lock_for=timedelta(seconds=60))
    assert caplog.text.count("misfire_grace_time is") == warnings


def test_without_apscheduler_the_import_says_what_to_install() -> None:
    with mock.patch.dict(sys.modules, {"apscheduler": None}):
        for name in list(sys.modules):
            if name.startswith(("apscheduler.", "pynamodb_tracker.apscheduler")):
                del sys.modules[name]
        with pytest.raises(ImportError, match=r"needs apscheduler.*: pip install 'PATH-OF-THE-CLONE\[apscheduler\]'"):
            import_module("pynamodb_tracker.apscheduler")


def test_processes_of_an_executor_get_a_plain_job() -> None:
    store = new_store()
    store.add_job(new_job())
    (job,) = store.get_due_jobs(datetime.now(UTC))
    copy = pickle.loads(pickle.dumps(job))  # noqa: S301 - its own
    assert type(copy) is Job
    assert (copy.id, copy.next_run_time) == (job.id, job.next_run_time)
