"""Studies: many simulated releases from one declarative file, into one resumable store."""
