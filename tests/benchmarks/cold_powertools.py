"""A function whose answer the idempotency utility of Powertools keeps."""

import os
import time
from typing import Any

from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent

_LAYER = DynamoDBPersistenceLayer(table_name=os.environ["TABLE"])


def work(_event: Any, _context: Any) -> dict[str, str]:
    return {"receipt": "r-1"}


_idempotent = idempotent(work, config=IdempotencyConfig(event_key_jmespath="id"), persistence_store=_LAYER)
_IMPORTED = time.process_time()


def handler(event: Any, context: Any) -> list[float]:
    """Return how much CPU time the import and this invocation took."""
    begun = time.process_time()
    _idempotent(event, context)
    return [_IMPORTED, time.process_time() - begun]
