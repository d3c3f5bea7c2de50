"""Imported by the process that workers are forked from: it loads what takes long, once for all of them."""

import botocore.session
import pynamodb.connection.base

SESSION = botocore.session.get_session()
SESSION.create_client("dynamodb", region_name="us-east-1").close()  # its descriptions of AWS are read here
pynamodb.connection.base.get_session = lambda: SESSION  # type: ignore[attr-defined]  # PynamoDB does not export it
