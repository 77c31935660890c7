"""The runner behind `scripts/check`, `test`, `interop` and `spark`: see `__main__.py`."""
