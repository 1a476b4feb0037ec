"""The sandbox."""
