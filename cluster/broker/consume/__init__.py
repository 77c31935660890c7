"""Pulls, long polls, offsets and the clients of groups."""
