"""Many workers on one table: races of real processes, lost and late requests, and what each guard is for."""
