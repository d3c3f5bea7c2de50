"""Steps, declared and bound to a class of tasks, and their states."""
