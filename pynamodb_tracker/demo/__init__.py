"""The demo: an order pipeline in which runs fail and workers die, and which accounts for every order in the end."""
