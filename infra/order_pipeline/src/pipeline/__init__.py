"""Orders are paid, shipped and delivered. Each step has its own Lambda function."""
