"""The only way into the log: a batch per turn, producers' numbers, changes of state."""
