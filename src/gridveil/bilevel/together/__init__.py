"""Methods for many releases at once: each is a row of arrays, and every step is taken by all rows that are at it."""
