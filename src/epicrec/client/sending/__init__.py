"""Sending: what may leave this device, to whom, when, and what it tells the receiver."""
