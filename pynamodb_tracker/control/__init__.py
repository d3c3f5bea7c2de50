"""Items beside a use case's tasks: pauses, step numbers, counts of transitions, and concurrency limits.

No task can have their keys, because use case names contain no `#`.
"""
