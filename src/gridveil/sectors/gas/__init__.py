"""Gas networks: files, arrays and optimal gas flow."""
