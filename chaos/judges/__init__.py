"""Checkers written by others, which a sceptic can trust more than this project's own."""
