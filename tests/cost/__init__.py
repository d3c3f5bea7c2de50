"""What it costs: write units, requests, the time of an import, clients."""
