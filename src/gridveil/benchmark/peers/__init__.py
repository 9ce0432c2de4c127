"""The contestants, one per module, each with nothing but what it needs."""
