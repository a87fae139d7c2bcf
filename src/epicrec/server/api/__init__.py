"""The HTTP side: routes, access, limits, the operator's page."""
