"""Pop consumption: messages taken for a while, acknowledged or given again."""
