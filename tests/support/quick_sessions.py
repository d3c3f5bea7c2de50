"""A plugin for pytest: botocore reads its descriptions of AWS once, which takes long."""

from pynamodb.connection import base

from tests.support.engines import quick_session

base.get_session = quick_session  # type: ignore[attr-defined]  # PynamoDB does not export it
