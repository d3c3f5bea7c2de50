"""The static files. Their names contain a hash, so browsers can keep them forever."""

import hashlib
from functools import cache
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@cache
def read_assets() -> dict[str, tuple[str, bytes]]:
    """Return the hashed name and the content of each static file, by plain name."""
    found = {}
    for path in (Path(__file__).parent / "static").iterdir():
        content = path.read_bytes()
        found[path.name] = (f"{path.stem}.{hashlib.sha256(content).hexdigest()[:12]}{path.suffix}", content)
    return found


def serve(request: Request) -> Response:
    """Return a static file. A browser must not keep it under another version's hash."""
    name = request.path_params["name"]
    suffix = f".{name.rpartition('.')[2]}"
    hashed, content = read_assets().get(f"{name.partition('.')[0]}{suffix}", ("", b""))
    if not hashed:
        raise HTTPException(404)
    headers = {"Cache-Control": "private, max-age=31536000, immutable"} if name == hashed else {}
    return Response(content, media_type=_TYPES[suffix], headers=headers)
