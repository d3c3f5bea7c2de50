"""Items of a use case beside its tasks: pauses, step numbers, counts of transitions, and concurrency limits."""
