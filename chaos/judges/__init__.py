"""Judges that are not ours: what a sceptic would rather believe."""
