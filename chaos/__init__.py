"""A run of chaos: random work and random violence against a real gateway, and a model that knows
what must be true all the same. `python -m chaos` runs it; docs/chaos.md says what it does.
"""
