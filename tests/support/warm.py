"""Imported by the process from which workers are forked, to load slow modules once."""

import botocore.session
import pynamodb.connection.base

SESSION = botocore.session.get_session()
SESSION.create_client("dynamodb", region_name="us-east-1").close()  # reads AWS's service descriptions
pynamodb.connection.base.get_session = lambda: SESSION  # type: ignore[attr-defined]  # PynamoDB does not export it
