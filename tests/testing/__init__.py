"""What `pynamodb_tracker.testing` gives to the tests of users."""
