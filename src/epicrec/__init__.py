"""Recommendations without giving up your history."""

from epicrec._version import __version__

__all__ = ["__version__"]
