"""Uses of the public API that a strict type checker must accept."""
