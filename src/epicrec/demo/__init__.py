"""Both ends together: the demo, servers on loopback, and what people get from running programs."""
