"""What tests of several folders share: a shop, its rows, engines, networks, worker processes and pages."""
