"""The service: a recommender that stores only what clients release."""

from epicrec.server.main import serve
from epicrec.server.settings import Settings

__all__ = ["Settings", "serve"]
