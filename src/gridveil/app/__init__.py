"""The local web app: a steward releases a network in a browser, step by step. It listens on this computer alone."""
