"""The demo: an order pipeline in which runs fail and workers die, and every order still ends where it should."""

import logging

# The demo shows failures and deaths itself. Its worker processes import this package, too.
logging.getLogger("pynamodb_tracker").addHandler(logging.NullHandler())


class DemoError(Exception):
    """The demo cannot run. The message has a line for each reason."""
