"""Settings of the Spark sessions that benches measure in."""

from __future__ import annotations

#: No progress bar among the figures, and no address but this machine's own.
LOCAL = {"spark.ui.showConsoleProgress": "false", "spark.driver.host": "127.0.0.1"}
#: Reads are cut into tasks as their source says, and no otherwise.
AS_CUT = {**LOCAL, "spark.sql.adaptive.enabled": "false"}
