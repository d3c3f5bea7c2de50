"""What the library costs: client CPU of a run, requests and capacity units, and the time of its import."""
