"""`template`: print what deploys a table."""

from typing import Annotated

from pynamodb_tracker.cli import options as opt
from pynamodb_tracker.cli.command import CannotRunError, exit_on_error, load_class
from pynamodb_tracker.cli.templates import cloudformation, policies, terraform
from pynamodb_tracker.cli.terminal import write


def template(
    *,
    as_terraform: Annotated[
        bool, opt.flag("--terraform", "Print a Terraform module of the table and its policies.")
    ] = False,
    of_policies: Annotated[
        bool, opt.flag("--policies", "Print the CloudFormation template of the policies of the table's users.")
    ] = False,
    name: opt.App,
) -> None:
    """Print a CloudFormation template of the table, with the indexes that its class declares.

    It needs no network. The table is protected from deletion, and has point-in-time recovery; its parameters are
    encryption by your own key, a stream, warm throughput and limits. The policies are a template of their own, for
    workers, readers, operators and schedulers.
    """
    with exit_on_error():
        model = load_class(name)
        if as_terraform and of_policies:
            raise CannotRunError("the Terraform module has the policies: leave --policies out, and set policies = true")
        made = terraform if as_terraform else policies if of_policies else cloudformation
        write(made(model))
