"""Optional parts of a task, by feature. `writes.participants` says which attributes of a row stand for them."""
