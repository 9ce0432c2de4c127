"""Foundations of all packages: errors, the container of secrets, choices, cost bands, parallel work."""
