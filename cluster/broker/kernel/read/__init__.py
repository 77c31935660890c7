"""Messages by their address and by their place in a queue, and the filter of a subscription."""
