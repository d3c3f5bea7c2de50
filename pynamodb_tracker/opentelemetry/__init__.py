"""OpenTelemetry spans and metrics about runs. They need the extra `opentelemetry`."""

from pynamodb_tracker.exceptions import INSTALLABLE

try:
    from pynamodb_tracker.opentelemetry.setup import instrument
except ImportError as error:
    if (error.name or "").startswith("pynamodb_tracker"):
        raise
    raise ImportError(f"spans and metrics need {error.name}: pip install '{INSTALLABLE}[opentelemetry]'") from error

__all__ = ["instrument"]
