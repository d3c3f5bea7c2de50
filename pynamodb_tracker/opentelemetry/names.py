"""Names for spans and metrics, by OpenTelemetry's semantic conventions for messaging, which may still change.

A step is a destination, a task is a message, and a run is an operation of type "process":
https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/
"""

from typing import Final

SCOPE: Final = "pynamodb_tracker"
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.43.0"

# From the semantic conventions.
SYSTEM: Final = "messaging.system"
OPERATION_TYPE: Final = "messaging.operation.type"
OPERATION_NAME: Final = "messaging.operation.name"
DESTINATION: Final = "messaging.destination.name"
MESSAGE_ID: Final = "messaging.message.id"
ERROR_TYPE: Final = "error.type"
PROCESS_DURATION: Final = "messaging.process.duration"

# Our own.
ATTEMPT: Final = "pynamodb_tracker.attempt"
FENCE: Final = "pynamodb_tracker.fence"
TOOK_OVER: Final = "pynamodb_tracker.took_over"
OUTCOME: Final = "pynamodb_tracker.outcome"
REASON: Final = "pynamodb_tracker.reason"
STATUS: Final = "pynamodb_tracker.status"
REFUSED: Final = "pynamodb_tracker.refused"
TAKEOVERS: Final = "pynamodb_tracker.takeovers"
LOCKS_LOST: Final = "pynamodb_tracker.locks_lost"
SKIPPED_OCCURRENCES: Final = "pynamodb_tracker.occurrences.skipped"
DUE_AGE: Final = "pynamodb_tracker.due.age"

# Values.
TRACKER: Final = "pynamodb_tracker"
PROCESS: Final = "process"
RUN: Final = "run"
UNKNOWN: Final = "unknown"
POSTPONED: Final = "postponed"
