"""Orders: paid, shipped and delivered, each step in a Lambda function of its own."""
