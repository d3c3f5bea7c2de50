"""Tasks that a run creates with its end, and tasks that wait for others."""
