"""Steps in AWS Lambda: handlers for events, records and schedules, and one that publishes events about tasks."""

from importlib import import_module
from typing import TYPE_CHECKING

from pynamodb_tracker.aws_lambda.emf import EmfHook
from pynamodb_tracker.aws_lambda.handler import Handler, StepHandler, handles
from pynamodb_tracker.aws_lambda.invocation import LambdaContext
from pynamodb_tracker.aws_lambda.result import Invocation, InvocationStatus
from pynamodb_tracker.aws_lambda.trigger import Replies, Reply, TriggerName, UnreadableEventError

if TYPE_CHECKING:
    from pynamodb_tracker.aws_lambda.publisher import event_publisher
    from pynamodb_tracker.aws_lambda.retry import RetryHandler, retry_handler
    from pynamodb_tracker.aws_lambda.signals import handles_signal

__all__ = [
    "EmfHook",
    "Handler",
    "Invocation",
    "InvocationStatus",
    "LambdaContext",
    "Replies",
    "Reply",
    "RetryHandler",
    "StepHandler",
    "TriggerName",
    "UnreadableEventError",
    "event_publisher",
    "handles",
    "handles_signal",
    "retry_handler",
]


def __getattr__(name: str) -> object:
    """Import another handler than `handles` on first access, because that would delay every cold start."""
    modules = {"event_publisher": "publisher", "handles_signal": "signals"}
    modules |= {"retry_handler": "retry", "RetryHandler": "retry"}
    if name in modules:
        return getattr(import_module(f"{__name__}.{modules[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
