"""The only package with access to true demands: mechanisms, samplers, ledger, audit, curator."""
