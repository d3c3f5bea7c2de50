"""The items of a use case beside its tasks: pauses and step numbers (`control=True`), and what passes (`flow=True`)."""
