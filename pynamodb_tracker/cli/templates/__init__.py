"""Templates that deploy a table: for CloudFormation and Terraform, as text."""

from pynamodb_tracker.cli.templates.policies import policies
from pynamodb_tracker.cli.templates.table import cloudformation, terraform

__all__ = ["cloudformation", "policies", "terraform"]
