"""Runs on event loops. Threads send the requests."""
