"""The static files, each under a name with its hash: a browser keeps it for ever, and a new one has a new name."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FOR_EVER = "private, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class Asset:
    """A static file."""

    hashed: str
    """Its name with its hash."""
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
    """Respond with a static file; one of another hash is of another version of this page, and not kept."""
    name = request.path_params["name"]
    asset = assets().get(f"{name.partition('.')[0]}.{name.rpartition('.')[2]}")
    if asset is None:
        raise HTTPException(404)
    headers = {"Cache-Control": _FOR_EVER} if name == asset.hashed else {}
    return Response(asset.content, media_type=asset.media_type, headers=headers)
