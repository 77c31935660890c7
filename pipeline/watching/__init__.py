"""How far streaming queries are behind their topics, as numbers, metrics and a panel."""
