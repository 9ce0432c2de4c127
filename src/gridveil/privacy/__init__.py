"""The only rooms that true demands may enter: mechanisms, samplers, ledger, audit, curator."""
