"""A run again: the same, in the other arena, or with fewer faults."""
