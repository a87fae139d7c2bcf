"""Pages: what the person sees, one module for each part of the application."""
