"""APScheduler's own tests of job stores, from its release, run against the store of this package."""
