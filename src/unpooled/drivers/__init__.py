"""What carries messages: the algorithms know nothing of it."""
