"""What DynamoDB takes, answers and refuses; nothing here knows of tasks."""
