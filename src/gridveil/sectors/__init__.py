"""Kinds of network. ``registry`` is the only module that knows which there are."""
