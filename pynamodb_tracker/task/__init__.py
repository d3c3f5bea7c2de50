"""The class that users derive their table and their use cases from."""
