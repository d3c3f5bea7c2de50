"""Which tasks a walk has met: 8 bytes for each, so that a walk through a million holds a page and no more than that."""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_left
from hashlib import blake2b

__all__ = ["Seen"]

_RECENT = 4096
"""Ids that are kept as a set, before they are put into order."""


class Seen:
    """The digests of ids. Two of a million ids have the same one in one walk out of 30 million."""

    def __init__(self) -> None:
        self._recent: set[int] = set()
        self._sorted: list[array[int]] = []
        """Each at least twice as long as the next one."""

    def is_new(self, task_id: str) -> bool:
        """Tell whether an id comes for the first time."""
        digest = int.from_bytes(blake2b(task_id.encode(), digest_size=8, usedforsecurity=False).digest())
        if digest in self._recent or any(_has(each, digest) for each in self._sorted):
            return False
        self._recent.add(digest)
        if len(self._recent) == _RECENT:
            self._put_into_order()
        return True

    def _put_into_order(self) -> None:
        latest = array("Q", sorted(self._recent))
        self._recent.clear()
        while self._sorted and len(self._sorted[-1]) < 2 * len(latest):
            latest = array("Q", heapq.merge(self._sorted.pop(), latest))
        self._sorted.append(latest)


def _has(digests: array[int], digest: int) -> bool:
    at = bisect_left(digests, digest)
    return at < len(digests) and digests[at] == digest
