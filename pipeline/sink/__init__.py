"""Rows → topics, once each; see README.md."""
