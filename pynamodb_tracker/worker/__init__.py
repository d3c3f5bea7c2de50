"""A worker: keeps running functions on the due tasks of steps, on threads or processes, until it is stopped."""

from pynamodb_tracker.worker.poller import Tally
from pynamodb_tracker.worker.worker import Worker

__all__ = ["Tally", "Worker"]
