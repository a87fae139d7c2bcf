"""Imports: viewings from files and browsers, reviewed by the person before they are history."""
