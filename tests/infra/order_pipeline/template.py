"""The template of the pipeline: as it is written, as SAM makes CloudFormation of it, and what moto takes of that."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from cfnlint.decode import cfn_yaml
from samtranslator.translator.transform import transform

INFRA = Path(__file__).parents[3] / "infra"
FOLDER = INFRA / "order_pipeline"
CODE = FOLDER / "src"

STEPS = {"ConfirmPayment": "confirm_payment", "Ship": "ship", "Deliver": "deliver"}

UNKNOWN_TO_MOTO = {
    "AWS::CloudWatch::Alarm": "its CloudFormation does not make alarms",
    "AWS::Lambda::EventInvokeConfig": "its CloudFormation does not make it",
    "AWS::Lambda::EventSourceMapping": "it would run the function itself, in Docker, at each message that is sent",
    "AWS::SQS::QueuePolicy": "its CloudFormation does not make it, and nobody is refused by it",
}
"""Types that are left out when the pipeline is deployed to moto, and why."""


class _NoPolicies:
    """Stands for SAM's loader of AWS's managed policies, which asks IAM: the template names none of them."""

    def load(self) -> dict[str, str]:
        return {}


def written() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_as_json())
    return found


@cache
def _as_json() -> str:
    return json.dumps(cfn_yaml.load(str(FOLDER / "template.yaml")))


def packaged(bucket: str, key: str) -> dict[str, Any]:
    """Return the template as `sam package` leaves it: the code lies in a bucket."""
    template = written()
    template["Globals"]["Function"]["CodeUri"] = f"s3://{bucket}/{key}"
    return template


def transformed(template: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_transformed(json.dumps(template)))
    return found


@cache
def _transformed(template: str) -> str:
    return json.dumps(transform(json.loads(template), {}, _NoPolicies()))


def of_type(template: dict[str, Any], kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, resource in template["Resources"].items():
        if resource["Type"] == kind:
            yield name, resource["Properties"]
