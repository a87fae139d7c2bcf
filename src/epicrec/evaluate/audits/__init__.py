"""Audits: a method run many times on two neighbouring inputs, and what its outputs give away."""
