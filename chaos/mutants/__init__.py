"""Seeded bugs, and the proof that each would be noticed. See README.md."""
