"""Committed entries → queues, index, state; role changes; changes of state as entries."""
