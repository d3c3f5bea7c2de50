"""Answers of DynamoDB from memory: a client does all of its work, and no byte leaves the process."""

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from botocore.awsrequest import AWSResponse

from tests.benchmarks.orders import pending


@dataclass(frozen=True, slots=True)
class _Body:
    content: bytes

    def stream(self) -> Iterator[bytes]:
        yield self.content


class Stub:
    """Answers the writes of one client, which come in the same order in every run, with what each asked for."""

    def __init__(self, client: Any, row: dict[str, Any], *, requests_of_a_run: int = 2) -> None:
        self.count = 0
        self.requests: list[dict[str, Any]] = []
        """The requests of the first run."""
        self._row = row
        self._answers: list[tuple[Any, _Body]] = []
        self._of_a_run = requests_of_a_run
        client.meta.events.register("before-send.dynamodb", self._answer)

    def _answer(self, request: Any, **_: Any) -> AWSResponse:
        if len(self._answers) < self._of_a_run:
            self._learn(json.loads(request.body))
        headers, body = self._answers[self.count % self._of_a_run]
        self.count += 1
        return AWSResponse(request.url, 200, headers, body)

    def _learn(self, request: dict[str, Any]) -> None:
        """Prepare the answer to such a request: written once, so that it costs next to nothing while time is taken."""
        self.requests.append(request)
        answer: dict[str, Any] = {}
        if request.get("ReturnValues") == "ALL_NEW":
            answer["Attributes"] = self._row
        elif request.get("ReturnValues") == "ALL_OLD":
            answer["Attributes"] = pending(self._row)
        if "ReturnConsumedCapacity" in request:
            answer["ConsumedCapacity"] = {"TableName": request["TableName"], "CapacityUnits": 3.0}
        content = json.dumps(answer).encode()
        headers = {
            "Content-Type": "application/x-amz-json-1.0",
            "Content-Length": str(len(content)),
            "x-amzn-RequestId": "K4P1ODQ3VVVNKB3CQ1ME2ACTGVVV4KQNSO5AEMVJF66Q9ASUAAJG",
            "x-amz-crc32": str(zlib.crc32(content)),
        }
        self._answers.append((headers, _Body(content)))
