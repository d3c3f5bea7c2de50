"""Workers: they run functions on the due tasks of steps until they are stopped."""
