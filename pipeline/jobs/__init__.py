"""Jobs over topics and raw logs: archive, audit, rebuild, check, count, replay; see README.md."""
