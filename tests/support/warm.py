"""Imported by the process from which others are forked, to do once what each would begin with.

That is loading the command line and its options, and reading AWS's service descriptions.
"""

import botocore.session
import typer.main

from pynamodb_tracker.cli import app
from tests.cli import command  # noqa: F401 - it lets a process build the options only once
from tests.support.quick_botocore import share_descriptions

typer.main.get_command(app)
share_descriptions()
botocore.session.get_session().create_client("dynamodb", region_name="us-east-1").close()
