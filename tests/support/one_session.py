"""A plugin for pytest: all clients of the process share a botocore session, which takes long to make."""

from pynamodb.connection import base

from tests.support.engines import shared_session

base.get_session = shared_session  # type: ignore[attr-defined]  # PynamoDB does not export it
