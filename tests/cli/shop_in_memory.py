"""The shop for commands in processes of their own, in memory and with a task in it."""

import atexit

from pynamodb_tracker.testing import local_table
from tests.cli.shop import Order, StoreTask

tables = local_table(StoreTask)
tables.__enter__()
atexit.register(tables.__exit__, None, None, None)
Order.create("o-1")
