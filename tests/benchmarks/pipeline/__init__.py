"""A pipeline of Lambda functions and queues, emulated: its environments are frozen, killed and thrown away."""
