"""Files in and out: syntax only."""
