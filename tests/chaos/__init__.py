"""A long random history: processes that are killed and frozen, a network that loses and repeats, and what must hold."""
