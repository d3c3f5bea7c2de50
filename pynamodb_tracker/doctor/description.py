"""A table as DynamoDB describes it, and findings about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, cast

from botocore import xform_name
from botocore.exceptions import BotoCoreError, ClientError

from pynamodb_tracker.dynamodb.connection import endpoint_of
from pynamodb_tracker.dynamodb.error_codes import advise, code_of
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.model.schema import Table

Response = Mapping[str, Any]


class Severity(StrEnum):
    """How serious a finding is, the worst first."""

    WRONG = "wrong"  # the tracker, or a part of it, does not work
    DANGER = "danger"  # a guarantee may not hold
    ADVICE = "advice"  # a setting could be better, or could not be checked


@dataclass(frozen=True, slots=True)
class Finding:
    """A difference between a table and its class, or advice about a setting."""

    severity: Severity
    subject: str
    found: str
    expected: str
    meaning: str
    """The consequences."""
    to_do: str


wrong, danger, advice = (partial(Finding, severity) for severity in Severity)


class NotExaminedError(Exception):
    """The table cannot be examined. The message gives the reason and the remedy in one line."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A setting that DynamoDB does not return to this caller. By default, the server is an emulator without it."""

    why: str = "the server does not return it"
    to_do: str = "Check the table on AWS."

    def __str__(self) -> str:
        return f"unknown: {self.why}"


@dataclass(frozen=True, slots=True)
class Description:
    declared: Table
    table: Response
    """https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TableDescription.html"""
    time_to_live: Response | Unknown
    """https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TimeToLiveDescription.html"""
    backups: Response | Unknown
    """https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_ContinuousBackupsDescription.html"""
    region: str

    @property
    def owner(self) -> str:
        return self.declared.owner.__name__

    @property
    def schema(self) -> Any:
        return self.declared.owner._get_schema()  # noqa: SLF001 - PynamoDB sends it

    @property
    def declared_indexes(self) -> list[Any]:
        return [*self.schema["global_secondary_indexes"], *self.schema["local_secondary_indexes"]]

    @property
    def models(self) -> list[type[TaskRow]]:
        models = [self.declared.owner, *sorted(self.declared.use_cases.values(), key=lambda each: each.__name__)]
        return cast("list[type[TaskRow]]", models)

    @property
    def indexes(self) -> dict[str, Response]:
        kinds = ("GlobalSecondaryIndexes", "LocalSecondaryIndexes")
        return {index["IndexName"]: index for kind in kinds for index in self.table.get(kind) or ()}

    @property
    def other_regions(self) -> list[str]:
        """The global table's other regions, including witnesses."""
        places = [*self.table.get("Replicas", ()), *self.table.get("GlobalTableWitnesses", ())]
        return sorted(place["RegionName"] for place in places if place["RegionName"] != self.region)

    @property
    def is_strongly_consistent(self) -> bool:
        return bool(self.other_regions) and self.table.get("MultiRegionConsistency") == "STRONG"


def describe(declared: Table) -> Description:
    """Describe the table with three requests, or raise NotExaminedError."""
    name, owner = declared.owner.Meta.table_name, declared.owner.__name__
    where = f"table {name!r}"
    try:
        client = declared.connection().connection.client
        where = f"table {name!r} at {endpoint_of(client)}"
        return Description(
            declared=declared,
            table=client.describe_table(TableName=name)["Table"],
            time_to_live=_describe_optional(client, "DescribeTimeToLive", name, "TimeToLiveDescription"),
            backups=_describe_optional(client, "DescribeContinuousBackups", name, "ContinuousBackupsDescription"),
            region=client.meta.region_name,
        )
    except ClientError as error:
        if code_of(error) == "ResourceNotFoundException":
            raise NotExaminedError(
                f"{where} does not exist: create it with {owner}.create_table(wait=True), or use the region and the "
                "credentials of the account that has it"
            ) from error
        raise NotExaminedError(f"{where}: {_message(error)}") from error
    except (BotoCoreError, ValueError) as error:  # a Meta.host that is not a URL raises ValueError
        if isinstance(error, BotoCoreError) and advise(error, where):
            raise NotExaminedError(str(error)) from error
        raise NotExaminedError(f"{where}: {' '.join(str(error).split())}") from error


def _describe_optional(client: Any, action: str, name: str, member: str) -> Response | Unknown:
    try:
        response: Response = getattr(client, xform_name(action))(TableName=name)[member]
    except ClientError as error:
        if code_of(error) == "UnknownOperationException":
            return Unknown()
        return Unknown(_message(error), f"Grant dynamodb:{action} to the role that runs this check.")
    return response


def _message(error: ClientError) -> str:
    return " ".join(f"{code_of(error)}: {error.response.get('Error', {}).get('Message')}".split())
