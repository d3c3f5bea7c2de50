"""A job store for APScheduler 3.11 that several schedulers can share. It needs the extra `apscheduler`."""

from pynamodb_tracker.exceptions import INSTALLABLE

try:
    from pynamodb_tracker.apscheduler.serializers import JobKey, JSONSerializer, PickleSerializer, Serializer, Signed
    from pynamodb_tracker.apscheduler.store import DynamoDBJobStore
except ImportError as error:
    if (error.name or "").startswith("pynamodb_tracker"):
        raise
    raise ImportError(f"the job store needs {error.name}: pip install '{INSTALLABLE}[apscheduler]'") from error

__all__ = ["DynamoDBJobStore", "JSONSerializer", "JobKey", "PickleSerializer", "Serializer", "Signed"]
