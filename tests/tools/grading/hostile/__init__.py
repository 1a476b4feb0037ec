"""Hostile and damaged submissions, and what must become of them."""
