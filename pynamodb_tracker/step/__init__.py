"""A step: as it is declared, and bound to its class of tasks."""

from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.declared import Step

__all__ = ["BoundStep", "Step"]
