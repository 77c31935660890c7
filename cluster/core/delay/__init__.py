"""Messages that wait in a topic of the system's own: delayed ones, timers, half messages."""
