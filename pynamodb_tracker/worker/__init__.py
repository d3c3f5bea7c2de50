"""A worker: keeps running functions on the due tasks of steps, on threads or processes, until it is stopped."""
