"""A worker: keeps running functions on what steps have to do, on threads or processes, until it is told to stop."""

from pynamodb_tracker.worker.tally import Tally
from pynamodb_tracker.worker.worker import Worker

__all__ = ["Tally", "Worker"]
