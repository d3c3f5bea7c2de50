"""The pause before a request is sent again: exponential, with full jitter."""

import random

RANDOM = random.SystemRandom()
"""Every random number of the library, except for tokens. The state of the module `random` would be the same in all
copies of a Lambda SnapStart snapshot: https://docs.aws.amazon.com/lambda/latest/dg/snapstart-uniqueness.html"""

_LONGEST_EXPONENT = 30


def jittered_pause(retry: int, *, base: float = 0.05, longest: float = 5.0) -> float:
    """Return the seconds to wait before a retry, numbered from 0: at most `base`, which doubles with each number.

    Full jitter keeps clients that failed together from retrying together:
    https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/
    """
    return RANDOM.uniform(0, min(longest, base * 2 ** min(retry, _LONGEST_EXPONENT)))
