"""asyncio in front of the same core: each request in a thread of a small pool, the user's block on the event loop."""
