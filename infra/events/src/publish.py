"""Publishes an event for each task transition in the table's stream."""

import os
from pkgutil import resolve_name

from pynamodb_tracker.aws_lambda import event_publisher

__all__ = ["handler"]

handler = event_publisher(resolve_name(os.environ["PYNAMODB_TRACKER_APP"]), bus=os.environ["BUS"])
