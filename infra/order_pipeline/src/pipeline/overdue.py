"""Metrics about how long orders have been due without running."""

import json
import sys
from datetime import datetime

from pipeline.orders import Order
from pynamodb_tracker import BoundStep


def write_overdue(now: datetime, namespace: str) -> dict[str, float]:
    """Write each step's `Overdue` in the embedded metric format. Return seconds by step.

    This reads each state's first index entry, with three requests of half a read unit per step, however many orders
    there are.
    """
    steps = (Order.confirm_payment, Order.ship, Order.deliver)
    return {step.name: _write_overdue_of(step, now, namespace) for step in steps}


def _write_overdue_of(step: BoundStep[Order], now: datetime, namespace: str) -> float:
    by_state = {str(state): (now - due).total_seconds() for state, due in step.next_due().items()}
    overdue = max([0.0, *by_state.values()])
    about = {"use_case_id": step.pending.use_case_id, "step": step.name}
    metric = {"Name": "Overdue", "Unit": "Seconds"}
    dimensions = [list(about), ["use_case_id"]]  # one per step, and the maximum of all steps
    directive = {"Namespace": namespace, "Dimensions": dimensions, "Metrics": [metric]}
    envelope = {"Timestamp": int(now.timestamp() * 1000), "CloudWatchMetrics": [directive]}
    line = {"_aws": envelope, **about, "Overdue": overdue, "seconds_overdue": by_state}
    sys.stdout.write(json.dumps(line) + "\n")
    return overdue
