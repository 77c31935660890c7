"""Log bytes ⇄ Arrow, by columns; no Spark here. See README.md."""
