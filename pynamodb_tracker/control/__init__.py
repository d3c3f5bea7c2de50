"""The items of a use case beside its tasks: pauses and step numbers, counts of transitions, and concurrency limits."""
