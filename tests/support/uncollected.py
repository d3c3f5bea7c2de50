import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Keep Python from looking for garbage in a search, which would look at each state again and again."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
