"""Who leads, everything that ends with a leadership, and deadlines."""
