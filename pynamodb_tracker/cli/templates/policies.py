"""The policies of the users of a table, as a CloudFormation template."""

from dataclasses import dataclass

from pynamodb_tracker.cli.templates.indexes import index_names
from pynamodb_tracker.task.task import Task

_READS = ("BatchGetItem", "GetItem", "Query")
_CHANGES = ("BatchGetItem", "ConditionCheckItem", "DeleteItem", "GetItem", "PutItem", "Query", "UpdateItem")
_DESCRIBES = ("DescribeContinuousBackups", "DescribeTable", "DescribeTimeToLive")


@dataclass(frozen=True, slots=True)
class Role:
    """One kind of user."""

    description: str
    """Never change it: IAM would replace the policy."""
    statements: dict[str, tuple[str, ...]]
    """The actions by the id of their statement; those of `States` are on the indexes, all others on the table."""


ROLES = {
    "worker": Role(
        "Runs steps of tasks, and creates tasks.",
        {
            "Rows": ("BatchGetItem", "ConditionCheckItem", "GetItem", "PutItem", "Query", "UpdateItem"),
            "Groups": ("DeleteItem",),  # nothing but the places of tasks in groups, and these only in transactions
            "Batches": ("PartiQLInsert", "PartiQLUpdate"),
            "States": ("Query",),
        },
    ),
    "reader": Role(
        "Reads tasks, counts them, and looks at the settings of the table.",
        {"Rows": _READS, "WholeTable": ("Scan",), "States": ("Query", "Scan"), "Settings": _DESCRIBES},
    ),
    "operator": Role(
        "Does what workers and readers do, sets tasks aside, reopens, deletes and loads them.",
        {
            "Rows": _CHANGES,
            "Batches": ("PartiQLDelete", "PartiQLInsert", "PartiQLUpdate"),
            "WholeTable": ("Scan",),
            "States": ("Query", "Scan"),
            "Settings": _DESCRIBES,
        },
    ),
    "scheduler": Role("Keeps the jobs of one job store of APScheduler.", {"Jobs": _CHANGES}),
}

_HEAD = """\
AWSTemplateFormatVersion: "2010-09-09"
Description: Managed policies for the users of a pynamodb_tracker table.

Parameters:
  TableArn:
    Type: String
    AllowedPattern: "arn:[a-z-]+:dynamodb:[a-z0-9-]+:[0-9]{12}:table/[a-zA-Z0-9_.-]+"
    Description: The ARN of the table, an output of its stack.
  JobStore:
    Type: String
    Default: default
    MinLength: 1
    Description: The name of the job store of the schedulers, as in DynamoDBJobStore(AppTask, store="default").

# Never change the Description of a policy: IAM would replace it, and the stacks that import its ARN prevent that.
Resources:
"""

_LIMITS = {
    "Groups": """\
              ForAnyValue:StringEquals:
                dynamodb:EnclosingOperation: # the places of tasks in groups are deleted in transactions only
                  - TransactWriteItems
""",
    "Jobs": """\
              ForAllValues:StringEquals:
                dynamodb:LeadingKeys:
                  - !Sub "apscheduler#${JobStore}"
              "Null": # without a key, "for all values" would hold
                dynamodb:LeadingKeys: "false"
""",
}
"""What limits statements whose actions could write, or delete, any item of the table."""


def policies(model: type[Task]) -> str:
    """Return a stack of managed policies for the users of the table of this class, and of its indexes."""
    indexes = [f'!Sub "${{TableArn}}/index/{name}"' for name in index_names(model)]
    resources = "\n".join(_policy(name.title(), role, indexes) for name, role in ROLES.items())
    outputs = "".join(
        f"  {name}PolicyArn:\n    Value: !Ref {name}\n"
        f'    Export:\n      Name: !Sub "${{AWS::StackName}}-{name}PolicyArn"\n'
        for name in map(str.title, ROLES)
    )
    return f"{_HEAD}{resources}\nOutputs:\n{outputs}"


def _policy(name: str, role: Role, indexes: list[str]) -> str:
    statements = "".join(
        _statement(sid, actions, indexes if sid == "States" else ["!Ref TableArn"])
        for sid, actions in role.statements.items()
    )
    return f"""\
  {name}:
    Type: AWS::IAM::ManagedPolicy
    Properties:
      Description: {role.description}
      PolicyDocument:
        Version: "2012-10-17"
        Statement:
{statements}"""


def _statement(sid: str, actions: tuple[str, ...], resources: list[str]) -> str:
    listed = "".join(f"              - dynamodb:{action}\n" for action in actions)
    named = "".join(f"              - {resource}\n" for resource in resources)
    return f"""\
          - Sid: {sid}
            Effect: Allow
            Action:
{listed}            Resource:
{named}            Condition:
              Bool:
                aws:SecureTransport: "true"
{_LIMITS.get(sid, "")}"""
