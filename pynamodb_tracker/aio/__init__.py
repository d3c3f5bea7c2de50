"""asyncio on the same core: a small pool of threads sends requests, and the user's block runs on the event loop."""
