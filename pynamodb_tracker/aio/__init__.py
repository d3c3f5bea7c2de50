"""Runs tasks on event loops. Threads send the requests."""
