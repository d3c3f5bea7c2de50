"""The pause before a request is sent again: exponential, with full jitter."""

import random

RANDOM = random.SystemRandom()
"""The only source of random numbers except tokens. The module `random` repeats its numbers in all copies of a Lambda
SnapStart snapshot: https://docs.aws.amazon.com/lambda/latest/dg/snapstart-uniqueness.html"""

_LONGEST_EXPONENT = 30


def jittered_pause(retry: int, *, base: float = 0.05, longest: float = 5.0) -> float:
    """Return the seconds before a retry, numbered from 0. The limit starts at `base` and doubles each time.

    Full jitter keeps clients that failed together from retrying together:
    https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/
    """
    return RANDOM.uniform(0, min(longest, base * 2 ** min(retry, _LONGEST_EXPONENT)))
