"""Forms as browsers send them: urlencoded, and not large."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request

_MOST_BYTES = 1_000_000
_MOST_FIELDS = 2000
_TYPE = "application/x-www-form-urlencoded"


class Form(Mapping[str, str]):
    """The fields of a form; one that is there several times has its first value, and all by `all`."""

    def __init__(self, text: str) -> None:
        self._fields: dict[str, list[str]] = {}
        for name, value in parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict"):
            self._fields.setdefault(name, []).append(value)

    def all(self, name: str) -> list[str]:
        """Return all values of a field."""
        return self._fields.get(name, [])

    def __getitem__(self, name: str) -> str:
        return self._fields[name][0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)


async def read_form(request: Request) -> Form:
    """Return the form that a request carries."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _TYPE:
        raise HTTPException(415, "A form of this page is sent urlencoded.")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BYTES:
            raise HTTPException(413, "The form is too large: select fewer tasks.")
    try:
        return Form(body.decode("ascii"))
    except ValueError:
        raise HTTPException(400, "The form cannot be read.") from None
