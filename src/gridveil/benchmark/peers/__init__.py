"""The contestants, one per module, each importing only what it needs."""
