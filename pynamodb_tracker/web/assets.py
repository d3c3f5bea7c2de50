"""The static files. Their names contain a hash, so browsers can keep them forever."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FOREVER = "private, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class Asset:
    """A static file."""

    hashed: str
    """Its name with the hash."""
    content: bytes
    media_type: str


@cache
def assets() -> dict[str, Asset]:
    """Return the static files by their plain names."""
    found = {}
    for path in (Path(__file__).parent / "static").iterdir():
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()[:12]
        found[path.name] = Asset(f"{path.stem}.{digest}{path.suffix}", content, _TYPES[path.suffix])
    return found


def serve(request: Request) -> Response:
    """Return a static file. A browser must not keep it under a hash of another version of the page."""
    name = request.path_params["name"]
    asset = assets().get(f"{name.partition('.')[0]}.{name.rpartition('.')[2]}")
    if asset is None:
        raise HTTPException(404)
    headers = {"Cache-Control": _FOREVER} if name == asset.hashed else {}
    return Response(asset.content, media_type=asset.media_type, headers=headers)
