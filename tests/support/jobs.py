"""A small table for tests of requests that fail inside the SDK."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from unittest import mock

import pytest

from pynamodb_tracker import Step, Task, UseCase
from tests.support.engines import Moto, quickest
from tests.support.rows import client
from tests.support.sdk_faults import Sdk

LOCK = timedelta(minutes=2)


class JobTask(Task):
    class Meta:
        table_name = "jobs"
        region = "us-east-1"
        max_retry_attempts = 0


class Job(JobTask):
    use_case_id = UseCase("job")

    work = Step(10, lock_for=LOCK, max_attempts=9)
    after = Step(20)


@contextmanager
def jobs(request: pytest.FixtureRequest | None = None, *, retries: int) -> Iterator[Sdk]:
    """Yield the table's SDK with that many retries, on moto or, with a fixture's request, on the quickest engine."""
    with (
        mock.patch.object(JobTask.Meta, "max_retry_attempts", retries),
        Moto.of([JobTask]) if request is None else quickest(request, JobTask),
        Sdk(client(JobTask)).in_use() as sdk,
    ):
        yield sdk
