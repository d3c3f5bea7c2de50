"""Steps, declared and bound to a class of tasks, and their states."""

from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.declared import Step
from pynamodb_tracker.step.definition import States
from pynamodb_tracker.step.state import State, TaskPage

__all__ = ["BoundStep", "State", "States", "Step", "TaskPage"]
