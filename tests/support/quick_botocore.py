"""Skips botocore's signatures. The engines do not check them, and each takes a quarter of a request's CPU time."""

from typing import Any

from botocore.auth import SigV4Auth


class Signing(SigV4Auth):  # type: ignore[misc]  # botocore is untyped
    """Signs like botocore does, for tests of signatures."""

    canonical_request = SigV4Auth.canonical_request
    signature = SigV4Auth.signature


def leave_signatures_out() -> None:
    """Replace all signatures with a constant, for the rest of this process."""
    for name in ("canonical_request", "signature"):
        setattr(SigV4Auth, name, _nothing)


def _nothing(*_: Any) -> str:
    return "0"
