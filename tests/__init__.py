"""The tests of pynamodb_tracker."""
