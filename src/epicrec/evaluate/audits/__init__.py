"""Audits: a method runs many times on two neighbouring inputs, and its outputs bound its ε."""
