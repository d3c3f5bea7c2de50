"""Requests to DynamoDB: retries, limits and error codes. This package knows nothing about tasks."""
