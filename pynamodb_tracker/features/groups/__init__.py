"""Groups: tasks that run one at a time, in the order of their creation."""
