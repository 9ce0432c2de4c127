"""Ways to solve the bilevel problem."""
