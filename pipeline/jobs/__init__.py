"""Jobs over topics and raw logs: archive, audit, rebuild, check, judge, replay; see README.md."""
