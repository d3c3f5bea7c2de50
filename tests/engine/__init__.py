"""dynoxide for the tests: one server per session, and a proxy that makes its network fail on purpose."""
