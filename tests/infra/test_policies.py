"""The policies allow what each role does, no more and no less; what it does is recorded while it is done."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import takewhile
from typing import Any, get_args

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from pynamodb_tracker import BoundSignal, ExecutionContext, State, Task, clock
from pynamodb_tracker.cli import app
from pynamodb_tracker.dynamodb import write_batcher
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.commands import StepCommands
from pynamodb_tracker.testing import local_table
from tests.apscheduler.jobs import new_job, new_store
from tests.engine.engine import Engine
from tests.infra import operator_operations, reader_operations, scheduler_operations, worker_operations
from tests.infra.operations import Act, Role, acts_of, rows_of
from tests.infra.permissions import Permission, Record, allowed, listed
from tests.infra.shop import Letter, Parcel, ShopTask, Stock, pack
from tests.infra.template import Template
from tests.support.engines import Dynoxide, Moto
from tests.support.pages import ROOT, Page
from tests.support.recorder import recorded
from tests.support.through import Dispatch, through

ARN = f"arn:aws:dynamodb:us-east-1:123456789012:table/{ShopTask.Meta.table_name}"
ROLES: tuple[Role, ...] = get_args(Role)
ACTS = [*acts_of("Operator"), *acts_of("Scheduler")]
TOLD = Page(ROOT / "docs" / "reference" / "permissions.md")

MODULES = [worker_operations, reader_operations, operator_operations, scheduler_operations]
"""They register their acts when they are imported."""

ASK_NOBODY = {
    *("connect", "does", "result", "to_dict", "to_json", "wait_until"),  # no request of their own
    "DoesNotExist",  # an error
    *("end_task", "go_to", "wait_for"),  # they leave with the success
    "demo",  # in memory
    *("size", "template"),  # a calculation, and a text
    "create-table",  # part of a deployment, which needs the permissions of a template
}

BATCHES: dict[Role, set[Permission]] = {
    "Worker": {Permission(f"dynamodb:PartiQL{verb}", "table") for verb in ("Insert", "Update")},
    "Reader": set(),
    "Operator": {Permission(f"dynamodb:PartiQL{verb}", "table") for verb in ("Delete", "Insert", "Update")},
    "Scheduler": set(),
}
"""What lets several writes leave in one request; moto knows no such request, so dynoxide is asked below."""

LIMITS: dict[str, dict[str, Any]] = {
    "Jobs": {
        "ForAllValues:StringEquals": {"dynamodb:LeadingKeys": ["apscheduler#default"]},
        "Null": {"dynamodb:LeadingKeys": "false"},  # without a key, "for all values" would hold
    },
    "Groups": {"ForAnyValue:StringEquals": {"dynamodb:EnclosingOperation": ["TransactWriteItems"]}},
}
"""What limits statements whose actions could write, or delete, any item of the table."""

READS = {f"dynamodb:{each}" for each in ("BatchGetItem", "ConditionCheckItem", "GetItem", "Query", "Scan")}

every_role = pytest.mark.parametrize("role", ROLES)


def document_of(role: Role) -> dict[str, Any]:
    document: dict[str, Any] = Template("policies.yaml", TableArn=ARN).properties(role)["PolicyDocument"]
    return document


@pytest.fixture(scope="module")
def records() -> dict[Act, Record]:
    """Do everything once, each on an empty table, and tell what was sent."""
    found = {}
    with Moto.of([ShopTask]) as tables:
        Stock.create_table(billing_mode="PAY_PER_REQUEST")
        for act in ACTS:
            record = Record(ShopTask.Meta.table_name)
            act(record)
            found[act] = record
            tables.empty()
    return found


@pytest.fixture(scope="module")
def permissions(records: dict[Act, Record]) -> dict[Act, set[Permission]]:
    """Return what each needs, except for what saves requests."""
    return {act: {each for each in record.permissions if not each.is_for_batches} for act, record in records.items()}


@every_role
def test_a_policy_allows_only_what_its_role_does(role: Role, permissions: dict[Act, set[Permission]]) -> None:
    assert (
        allowed(document_of(role), ARN) == {each for act in acts_of(role) for each in permissions[act]} | BATCHES[role]
    )


@every_role
def test_a_policy_names_each_action_once_in_full_and_asks_for_tls(role: Role) -> None:
    document = document_of(role)
    assert "*" not in json.dumps(document)
    named = Counter(
        (action, resource)
        for statement in document["Statement"]
        for action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    )
    assert set(named.values()) == {1}
    for statement in document["Statement"]:
        assert statement["Effect"] == "Allow"
        of_items = LIMITS.get(statement["Sid"], {})
        assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "true"}, **of_items}


def test_workers_delete_for_groups_only_and_only_in_transactions(records: dict[Act, Record]) -> None:
    deletes = Permission("dynamodb:DeleteItem", "table")
    deleting = {act: records[act] for act in acts_of("Worker") if deletes in records[act].permissions}
    assert set(deleting) == {worker_operations.hand_on_the_turn_of_a_group}
    assert all("DeleteItem" not in record.operations for record in deleting.values())
    (statement,) = (each for each in document_of("Worker")["Statement"] if "dynamodb:DeleteItem" in each["Action"])
    assert (statement["Sid"], statement["Action"]) == ("Groups", ["dynamodb:DeleteItem"])


def test_in_a_passive_region_every_write_of_the_library_is_denied(permissions: dict[Act, set[Permission]]) -> None:
    template = Template("passive_regions.yaml", TableName=ShopTask.Meta.table_name, ActiveRegion="eu-west-1")
    (statement,) = template.properties("PassiveRegions")["PolicyDocument"]["Statement"]
    sent = {
        each.action for needed in [*permissions.values(), *BATCHES.values()] for each in needed if each.on == "table"
    }
    writes = {each for each in sent - READS if not each.startswith("dynamodb:Describe")}
    assert {*statement["Action"]} == writes | {"dynamodb:BatchWriteItem"}  # of programs beside the library
    assert (statement["Effect"], statement["Resource"]) == ("Deny", ARN.replace("us-east-1", "*"))
    assert statement["Condition"] == {"StringNotEquals": {"aws:RequestedRegion": "eu-west-1"}}


def test_the_items_of_a_store_are_what_the_policy_of_a_scheduler_names() -> None:
    with local_table(ShopTask), recorded(ShopTask) as requests:
        store = new_store(ShopTask, store="shop")
        store.add_job(new_job())
        store.get_due_jobs(clock.now())
        store.remove_all_jobs()
    keys = set(re.findall(r"'S': '(apscheduler[^']*)'", str([request.body for request in requests])))
    policy = Template("policies.yaml", TableArn=ARN, JobStore="shop").properties("Scheduler")["PolicyDocument"]
    (statement,) = policy["Statement"]
    assert statement["Condition"]["ForAllValues:StringEquals"] == {"dynamodb:LeadingKeys": [*keys]}


def test_every_method_and_every_command_that_asks_the_table_is_done_by_a_role() -> None:
    kinds: list[type] = [BoundSignal, BoundStep, StepCommands, ExecutionContext, State, Task]
    methods = {
        name
        for kind in kinds
        for name, member in vars(kind).items()
        if callable(getattr(member, "__func__", member)) and not name.startswith("_")
    }
    methods -= {f"a{name}" for name in methods}  # they do the same, and send it from other threads
    commands = {str(command.name) for command in app.registered_commands}
    told = {word for role in ROLES for row in rows_of(role) for word in re.findall(r"[\w-]+", row)}
    assert (methods | commands) - told == ASK_NOBODY


def test_the_page_lists_what_each_call_needs(permissions: dict[Act, set[Permission]]) -> None:
    expected = {}
    for role in ROLES:
        for row, acts in rows_of(role).items():
            of_row = {each for act in acts for each in permissions[act]}
            expected[row] = tuple(
                sorted(each.action.removeprefix("dynamodb:") for each in of_row if each.on == place)
                for place in ("table", "index")
            )
    lines = TOLD.prose()
    first = lines.index("| call | on the table | on its index |") + 2
    rows = takewhile(lambda cells: len(cells) == 5, ([*map(str.strip, line.split("|"))] for line in lines[first:]))
    told = {row: tuple(sorted(re.findall(r"\w+", cell)) for cell in cells) for _, row, *cells, _ in rows}
    assert told == expected


@pytest.mark.engine
def test_the_policies_allow_the_statements_of_batches(dynamodb: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_batcher, "_LONGEST_WAIT", 0.5)  # a slow machine takes longer to gather the writes
    ids = [f"l-{number}" for number in range(4)]
    with Dynoxide.of([ShopTask], dynamodb.endpoint):
        writes, deletes = (Record(ShopTask.Meta.table_name) for _ in range(2))
        with writes:
            Letter.create_many(ids, threads=4)
            Letter.post.ignore_many(ids, reason="cancelled")  # for IAM, the same as a claim or a finish
        with deletes:
            Letter.delete_use_case(threads=4)
    assert {each for each in writes.permissions if each.is_for_batches} == BATCHES["Worker"]
    assert {each for each in deletes.permissions if each.is_for_batches} == BATCHES["Operator"] - BATCHES["Worker"]


@pytest.fixture
def shop() -> Iterator[None]:
    with local_table(ShopTask):
        yield


@pytest.mark.usefixtures("shop")
def test_a_count_of_a_state_asks_for_nothing_but_a_number() -> None:
    Letter.create("l-1")
    with recorded(ShopTask) as requests:
        assert Letter.post.pending.count() == 1
    assert {(request.operation, request.body["Select"]) for request in requests} == {("Query", "COUNT")}


@pytest.mark.usefixtures("shop")
def test_queries_of_the_index_name_the_use_case_first() -> None:
    Letter.create("l-1")
    with recorded(ShopTask) as requests:
        assert list(Letter.post.due())
        assert list(Letter.post.pending.query())
        assert Letter.post.next_due()
    keys = [request.body["ExpressionAttributeValues"] for request in requests if "IndexName" in request.body]
    assert keys
    assert all(any(value.get("S", "").startswith("letter#") for value in each.values()) for each in keys)


@pytest.mark.usefixtures("shop")
def test_without_query_of_the_table_a_task_succeeds_and_the_log_says_what_stays(caplog: Any) -> None:
    def deny(send: Dispatch, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        if operation == "Query":
            raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "not authorized"}}, operation)
        return send(operation, request)

    Parcel.create("p-1", state=Parcel.send.pending)
    with through(ShopTask, deny):
        Parcel.send.run("p-1", pack)
    assert Parcel.get_task("p-1").state == Parcel.send.succeeded
    assert "will not expire" in caplog.text


def test_the_policies_are_made_on_a_stack_which_exports_their_arns() -> None:
    with mock_aws():
        stacks = boto3.client("cloudformation", region_name="us-east-1")
        parameters = [{"ParameterKey": "TableArn", "ParameterValue": ARN}]
        body = Template("policies.yaml", TableArn=ARN).body()
        stacks.create_stack(
            StackName="shop-access", TemplateBody=body, Parameters=parameters, Capabilities=["CAPABILITY_IAM"]
        )
        exported = {export["Name"]: export["Value"] for export in stacks.list_exports()["Exports"]}
        assert set(exported) == {f"shop-access-{role}PolicyArn" for role in ROLES}
        for role in ROLES:
            assert made(exported[f"shop-access-{role}PolicyArn"]) == allowed(document_of(role), ARN)


def made(policy_arn: str) -> set[Permission]:
    policies = boto3.client("iam", region_name="us-east-1")
    version = policies.get_policy(PolicyArn=policy_arn)["Policy"]["DefaultVersionId"]
    document = policies.get_policy_version(PolicyArn=policy_arn, VersionId=version)["PolicyVersion"]["Document"]
    return allowed(document, ARN)


@pytest.mark.parametrize("region", ["us-east-1a", "europe", ""])
def test_what_is_no_region_cannot_be_the_active_one(region: str) -> None:
    with pytest.raises(AssertionError, match="cannot be"):
        Template("passive_regions.yaml", TableName="tasks", ActiveRegion=region)


@pytest.mark.parametrize(
    "arn", [f"{ARN}/index/status-index", "tasks", "arn:aws:dynamodb:us-east-1:123456789012:table/*"]
)
def test_what_is_not_the_arn_of_a_table_is_refused(arn: str) -> None:
    with pytest.raises(AssertionError, match="cannot be"):
        Template("policies.yaml", TableArn=arn)
