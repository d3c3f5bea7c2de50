"""A long random history with killed and frozen processes and a bad network, and the promises that must hold."""
