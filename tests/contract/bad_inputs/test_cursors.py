"""Cursors: what the page before returned, for the same query."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.contract.odd_values import columns, refuses
from tests.support.shop import Order, Parcel

pytestmark = pytest.mark.usefixtures("table")

DUE = "2026-01-01T00:00:00.000000+0000"


def encoded(text: bytes) -> str:
    return base64.urlsafe_b64encode(text).decode()


def forged(positions: object) -> str:
    """Return a cursor of the pending parcels that says to go on from there."""
    return encoded(json.dumps([["parcel", 10, False, None, None], positions]).encode())


NO_CURSORS: list[Any] = [
    *("no cursor", "\ud800", "\0", 5, True, ["cursor"], {}, object()),
    *(encoded(text) for text in (b"NaN", b"1" * 5000, b"[[],{}]", b"{}", b"null")),
    *(forged(positions) for positions in (None, [], {"parcel#10#0": "x"}, {"parcel#10#0": [DUE]})),
    forged({"parcel#10#0": [DUE, "t-1", "more"]}),
    encoded(b"[" * 99_999 + b"]" * 99_999),
    forged({"parcel#10#0": [DUE, ""]}),
    forged({"parcel#10#0": ["", "t-1"]}),
    forged({"parcel#10#0": ["yesterday", "t-1"]}),
    forged({"parcel#10#0": [DUE, "x" * 1025]}),
    forged({"parcel#10#0": [DUE, "\ud800"]}),
    forged({"parcel#10#0": [1, 2]}),
    forged({"parcel#10#0": [[], {}]}),
    forged({"parcel#10#0": "xy"}),
]


@columns("cursor")(NO_CURSORS)
def test_what_is_no_cursor_is_refused(cursor: Any) -> None:
    refuses(lambda: Parcel.sort.pending.page(cursor=cursor), "cursor")


def test_a_cursor_that_lost_its_end_or_its_beginning_or_is_of_another_query_is_refused() -> None:
    Parcel.create_many(["t-1", "t-2"])
    cursor = Parcel.sort.pending.page(limit=1).cursor
    assert cursor is not None
    for cut in range(1, 12):
        refuses(lambda cut=cut: Parcel.sort.pending.page(cursor=cursor[cut:]), "cursor")
        refuses(lambda cut=cut: Parcel.sort.pending.page(cursor=cursor[:-cut]), "cursor")
    refuses(lambda: Order.confirm_payment.pending.page(cursor=cursor), "cursor is of another query")
    refuses(lambda: Parcel.sort.pending.page(cursor=cursor, latest_first=True), "cursor is of another query")
    assert len(Parcel.sort.pending.page(cursor=cursor).tasks) == 1
