"""What one write of a task's row is: its guards, its attributes, what takes part in it, and why it was refused."""
