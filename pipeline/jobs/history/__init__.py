"""Histories of chaos runs, judged by columns; see README.md."""
