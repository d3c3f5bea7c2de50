"""The description of a table: what DynamoDB says of it, and why where it says nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botocore import xform_name
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, NoRegionError

from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.model.table import Table

__all__ = ["Description", "NotExaminedError", "NotLookedAt", "describe"]

Answer = Mapping[str, Any]


class NotExaminedError(Exception):
    """A table cannot be examined; the message says why on one line, and what to do."""


@dataclass(frozen=True, slots=True)
class NotLookedAt:
    """A setting that DynamoDB does not tell, or not this caller."""

    why: str
    to_do: str

    @classmethod
    def untold(cls) -> NotLookedAt:
        """Return what a server leaves that does not have the setting, as an emulator may."""
        return cls("the server does not tell", "Look at the table on AWS.")

    def __str__(self) -> str:
        return f"not looked at: {self.why}"


@dataclass(frozen=True, slots=True)
class Description:
    """A table as it is, beside what declares it."""

    declared: Table
    table: Answer
    """https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TableDescription.html"""
    time_to_live: Answer | NotLookedAt
    """https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TimeToLiveDescription.html"""
    backups: Answer | NotLookedAt
    """https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_ContinuousBackupsDescription.html"""
    region: str

    @property
    def schema(self) -> Any:
        """What `create_table` would ask for."""
        return self.declared.owner._get_schema()  # noqa: SLF001 - the same that PynamoDB sends

    @property
    def declared_indexes(self) -> list[Any]:
        """The indexes that the class of the table declares."""
        return [*self.schema["global_secondary_indexes"], *self.schema["local_secondary_indexes"]]

    @property
    def models(self) -> list[type[TaskRow]]:
        """The class of the table, and those of its use cases that this process knows."""
        return [self.declared.owner, *sorted(self.declared.use_cases.values(), key=lambda each: each.__name__)]

    @property
    def indexes(self) -> dict[str, Answer]:
        """The indexes that are there, by name."""
        kinds = ("GlobalSecondaryIndexes", "LocalSecondaryIndexes")
        return {index["IndexName"]: index for kind in kinds for index in self.table.get(kind) or ()}

    @property
    def elsewhere(self) -> list[str]:
        """The other regions that have the table, witnesses included."""
        places = [*self.table.get("Replicas", ()), *self.table.get("GlobalTableWitnesses", ())]
        return sorted(place["RegionName"] for place in places if place["RegionName"] != self.region)

    @property
    def is_strong_elsewhere(self) -> bool:
        """Whether the table is one and the same in all its regions; where DynamoDB does not say, it is not."""
        return bool(self.elsewhere) and self.table.get("MultiRegionConsistency") == "STRONG"


def describe(declared: Table) -> Description:
    """Ask DynamoDB about the table by three requests; a NotExaminedError where it is not there or does not answer."""
    name, owner = declared.owner.Meta.table_name, declared.owner.__name__
    where = f"table {name!r}"
    try:
        client = declared.connection().connection.client
        where = f"table {name!r} at {client.meta.endpoint_url}"
        return Description(
            declared=declared,
            table=client.describe_table(TableName=name)["Table"],
            time_to_live=_asked(client, "DescribeTimeToLive", name, "TimeToLiveDescription"),
            backups=_asked(client, "DescribeContinuousBackups", name, "ContinuousBackupsDescription"),
            region=client.meta.region_name,
        )
    except ClientError as error:
        if _code(error) == "ResourceNotFoundException":
            raise NotExaminedError(
                f"{where} is not there: create it by {owner}.create_table(wait=True), or look in the region and with "
                "the credentials of the account that has it"
            ) from error
        raise NotExaminedError(f"{where}: {_said(error)}") from error
    except NoRegionError as error:
        raise NotExaminedError(f"{where}: no region: write it in {owner}.Meta, or set AWS_DEFAULT_REGION") from error
    except NoCredentialsError as error:
        keys = "AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        raise NotExaminedError(f"{where}: no credentials: set {keys}") from error
    except (BotoCoreError, ValueError) as error:  # a Meta.host that is no URL is a ValueError
        raise NotExaminedError(f"{where}: {' '.join(str(error).split())}") from error


def _asked(client: Any, action: str, name: str, about: str) -> Answer | NotLookedAt:
    """Ask what not every server knows, and not everybody may know."""
    try:
        answer: Answer = getattr(client, xform_name(action))(TableName=name)[about]
    except ClientError as error:
        if _code(error) == "UnknownOperationException":
            return NotLookedAt.untold()
        return NotLookedAt(_said(error), f"Allow dynamodb:{action} to whoever looks.")
    return answer


def _said(error: ClientError) -> str:
    return " ".join(f"{_code(error)}: {error.response.get('Error', {}).get('Message')}".split())


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code"))
