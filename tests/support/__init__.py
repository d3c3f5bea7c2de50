"""A shop, its rows, engines, networks, worker processes and pages for tests in several folders."""
