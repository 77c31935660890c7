"""The leadership, all parts that end with it, and deadlines."""
