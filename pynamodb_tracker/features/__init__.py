"""Optional parts of a task. `writes.participants` imports most of them by the attributes of a row.

| feature | module | attributes of the row |
| --- | --- | --- |
| checkpoints | `checkpoints` | `checkpoints` |
| children, joins and follow-ups | `children` | `parent`, `blockers`, `join_token`, `creator` |
| groups | `groups` | `group`, `group_number`, `turn_due_time` |
| large data | `overflow` | `data` |
| merged requests | `merges` | `queued`, `request_count`, `request_tokens` |
| repeating tasks | `repeats` | `repeat`, `occurrence`, `occurrence_count`, `extra_time`, `last_run` |
| signals, and how long a step waits | `signals` | `awaited_signals`, `signals`, `wait_until`, `missed_signals` |
"""
