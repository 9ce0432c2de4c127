"""What every room may use: errors, the container of secrets, choices, bands, parallel work."""
