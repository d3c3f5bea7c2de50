"""Steps in AWS Lambda: handlers that run one task per event or record, and one that runs what is due on a schedule."""

from pynamodb_tracker.aws_lambda.handler import Handler, StepHandler, handles
from pynamodb_tracker.aws_lambda.invocation import LambdaContext
from pynamodb_tracker.aws_lambda.result import Result, ResultStatus
from pynamodb_tracker.aws_lambda.retry import RetryHandler, RetrySummary, retry_handler
from pynamodb_tracker.aws_lambda.trigger import Replies, Reply, TriggerName, UnreadableEventError

__all__ = [
    "Handler",
    "LambdaContext",
    "Replies",
    "Reply",
    "Result",
    "ResultStatus",
    "RetryHandler",
    "RetrySummary",
    "StepHandler",
    "TriggerName",
    "UnreadableEventError",
    "handles",
    "retry_handler",
]
