"""For tests: tables in memory, a local server, a stopped clock, and Lambda events. All but events are also fixtures."""

from pynamodb_tracker.clock import StoppedClock
from pynamodb_tracker.testing.events import (
    dynamodb_event,
    eventbridge_event,
    http_event,
    kafka_event,
    kinesis_event,
    s3_event,
    sns_event,
    sqs_event,
)
from pynamodb_tracker.testing.server import LocalServerError
from pynamodb_tracker.testing.tables import (
    LocalServer,
    LocalTable,
    local_server,
    local_table,
    open_local_table,
    stopped_clock,
)

__all__ = [
    "LocalServer",
    "LocalServerError",
    "LocalTable",
    "StoppedClock",
    "dynamodb_event",
    "eventbridge_event",
    "http_event",
    "kafka_event",
    "kinesis_event",
    "local_server",
    "local_table",
    "open_local_table",
    "s3_event",
    "sns_event",
    "sqs_event",
    "stopped_clock",
]
