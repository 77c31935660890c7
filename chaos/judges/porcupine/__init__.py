"""porcupine (Wing and Gong's search with Lowe's memory, in Go) as the third judge of a history."""
