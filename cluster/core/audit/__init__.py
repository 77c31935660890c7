"""The audit log: changes and refusals of administrators, as records of an internal topic."""
