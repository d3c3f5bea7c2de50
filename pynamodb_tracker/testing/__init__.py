"""For tests: a table in memory, on moto, a stopped clock, and events; the first two are also pytest fixtures."""

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
from pynamodb_tracker.testing.tables import LocalTable, local_table, open_local_table, stopped_clock

__all__ = [
    "LocalTable",
    "StoppedClock",
    "dynamodb_event",
    "eventbridge_event",
    "http_event",
    "kafka_event",
    "kinesis_event",
    "local_table",
    "open_local_table",
    "s3_event",
    "sns_event",
    "sqs_event",
    "stopped_clock",
]
