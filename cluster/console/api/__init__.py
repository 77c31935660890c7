"""The answers of the API: one table of routes, pure of HTTP; see README.md."""
