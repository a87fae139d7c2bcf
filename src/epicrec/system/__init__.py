"""Server and client together on loopback: the demo, and what people get out of it."""
