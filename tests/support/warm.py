"""Imported by the process that workers are forked from: it loads what takes long, once for all of them."""

import botocore.session
import pynamodb.connection.base

from pynamodb_tracker import cli
from tests.chaos import workers_on_loops
from tests.support import forked, heartbeat_process, worker_process

__all__ = ["cli", "forked", "heartbeat_process", "worker_process", "workers_on_loops"]

SESSION = botocore.session.get_session()
SESSION.create_client("dynamodb", region_name="us-east-1").close()  # its descriptions of AWS are read here
pynamodb.connection.base.get_session = lambda: SESSION  # type: ignore[attr-defined]  # PynamoDB does not export it
