"""The Jupyter door, as clients see it."""
