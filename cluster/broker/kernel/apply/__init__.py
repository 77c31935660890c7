"""Committed entries become queues, index and state."""
