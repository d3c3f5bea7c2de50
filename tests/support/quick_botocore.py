"""botocore without signatures: dynoxide and moto verify none, and each takes a quarter of the CPU time of a request."""

from typing import Any

from botocore.auth import SigV4Auth


class Signing(SigV4Auth):  # type: ignore[misc]  # botocore is untyped
    """Signs as botocore does on AWS, for tests of signatures."""

    canonical_request = SigV4Auth.canonical_request
    signature = SigV4Auth.signature


def leave_signatures_out() -> None:
    """Put a constant in place of each signature, in this process and for good."""
    for name in ("canonical_request", "signature"):
        setattr(SigV4Auth, name, _nothing)


def _nothing(*_: Any) -> str:
    return "0"
