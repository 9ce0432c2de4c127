"""Settings of the batch that the structured solver does not have; all others are taken from its table of settings."""

BATCH_TOLERANCE = 1e-6
"""Largest scaled error of the kernels."""
JOINT_TOLERANCE = 1e-7
"""The same for joint tasks, as the structured solver has it: their distances and bands are judged to 1e-6."""
BATCH_CHECK = 1e-5
"""Largest residual of the independent check, as CHECK_TOLERANCE of the structured solver."""
MAX_ITERATIONS = 500
"""Iterations of any run, as ITERATIONS_RESUMED of the structured solver, which has the longest."""
COLD_ITERATIONS = 120
"""Iterations of a cold run, as ITERATIONS_BRIEF; joint tasks have ITERATIONS_THOROUGH."""
MOST_TRADE = 1e-2
"""Power (p.u.) that soft balances buy at some bus, from which on a scenario counts as unbalanced."""
GIVE_UP_AFTER = 20
"""Iterations without a lower infeasibility after which a run with soaring prices ends."""
GIVE_UP_PRICE = 1e4
"""Scaled price that counts as soaring: the steepest generation cost is scaled to at most 100."""
REFILL_AT_ONCE = 16
"""Threads of a warp (of 32) whose slots have ended, from which on these start anew at once."""
REFILL = 8
"""The same after two rounds of waiting."""
REFILL_ROUNDS = 3
"""Rounds after which a slot waits no longer for others of its warp."""
TRIALS = 2
"""Points of a line search that a slot tries in a round."""
TRIALS_AGAIN = 8
"""The same for scenarios that have failed before: most cannot be served, and have long searches in every iteration."""
CORRECT_UNTIL_AGAIN = 5
"""Iterations without a lower infeasibility until which these try second-order corrections; all others always do."""
