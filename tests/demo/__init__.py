"""The demo and its command, as a person runs them."""
