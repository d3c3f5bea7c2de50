"""Odd input, one table per noun: each is refused before any request, or is stored and reads back equal."""
