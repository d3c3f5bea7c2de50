"""The program in another language reads what the library has written, and starts a task through a queue."""

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from pynamodb_tracker.aws_lambda import handles
from pynamodb_tracker.testing import sqs_event
from tests.engine.engine import Engine
from tests.infra.template import INFRA
from tests.support.engines import Dynoxide
from tests.support.shop import AppTask, Parcel

KEY = "a secret"
SCRIPT = """
const { getTask, listState, startTask } = await import(process.argv[1]);
const [table, queue] = process.argv.slice(2);
const listed = [];
for await (const task of listState(table, "parcel", 12, 5)) listed.push(task.taskId);
const refused = [];
for (const id of ["later", "large"]) await getTask(table, "parcel", id).catch((error) => refused.push(error.message));
const read = [await getTask(table, "parcel", "p-1"), await getTask(table, "parcel", "none") ?? null];
await startTask(queue, "p-é");
console.log(JSON.stringify({ listed, refused, read }));
"""


class Queue(BaseHTTPRequestHandler):
    """What SQS does with a message, as far as this program can tell: it checks the signature, and keeps the body."""

    bodies: list[Any]

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["content-length"]))
        signed = self.headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
        headers = {name: self.headers[name] for name in signed}
        request = AWSRequest("POST", f"http://{self.headers['host']}/", headers, content)
        request.context["timestamp"] = self.headers["x-amz-date"]
        auth = SigV4Auth(Credentials("key", KEY), "sqs", "us-east-1")
        signature = auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)
        taken = self.headers["authorization"].endswith(f"Signature={signature}")
        if taken and self.headers["x-amz-target"] == "AmazonSQS.SendMessage":
            self.bodies.append(json.loads(json.loads(content)["MessageBody"]))
        self.send_response(200 if taken else 403)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def queue() -> Iterator[tuple[str, list[Any]]]:
    """Serve a queue on loopback; its address, and the messages that it has got."""
    bodies: list[Any] = []
    with HTTPServer(("127.0.0.1", 0), type("OneQueue", (Queue,), {"bodies": bodies})) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", bodies
        server.shutdown()
        thread.join()


def refuse(_: object) -> None:
    raise ConnectionError("no scales")


def test_node_reads_tasks_and_starts_one(node: str, queue: tuple[str, list[Any]], dynamodb: Engine) -> None:
    address, bodies = queue
    handled = []
    sort = handles(Parcel.sort, task_id="task_id", create_if_missing=True, trigger="sqs")(
        lambda ctx, _: handled.append(ctx.task.task_id)
    )
    with Dynoxide.of([AppTask], dynamodb.endpoint):
        names = [f"p-{number}" for number in range(1, 7)]  # on more than one of five shards
        for task_id in names:
            Parcel.create(task_id, data={"to": "Zoë"})
            with pytest.raises(ConnectionError):
                Parcel.sort.run(task_id, refuse)
        Parcel.create("large", data={"text": "large " * 1_000})
        Parcel.create("later")
        AppTask.tracker.connection().update_item("later", "parcel", actions=[Parcel.format_version.set(2)])
        settings = {
            "AWS_ACCESS_KEY_ID": os.environ["AWS_ACCESS_KEY_ID"],
            "AWS_SECRET_ACCESS_KEY": KEY,
            "AWS_SESSION_TOKEN": "token",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL_DYNAMODB": dynamodb.endpoint,
            "AWS_ENDPOINT_URL_SQS": address,
        }
        program = (INFRA / "node" / "tasks.mjs").as_uri()
        command = [
            node,
            "--input-type=module",
            "--eval",
            SCRIPT,
            program,
            AppTask.Meta.table_name,
            f"{address}/1/queue",
        ]
        ended = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=60, check=False)
        assert ended.stderr == ""
        answer = json.loads(ended.stdout)

        assert sorted(answer["listed"]) == names
        assert answer["refused"] == ["later has format 2", "data of large is stored off-row"]
        task, none = answer["read"]
        assert none is None
        assert (task["code"], task["attempt"], task["data"]) == (Parcel.sort.failed.code, 1, {"to": "Zoë"})
        assert datetime.fromisoformat(task["dueTime"]) == Parcel.get_task("p-1").due_time
        assert "no scales" in task["lastError"]

        assert sort(sqs_event(*bodies), None) == {"batchItemFailures": []}
        assert handled == ["p-é"]
        assert Parcel.get_task("p-é").state == Parcel.sort.succeeded
