"""Benchmarks against other tools on public cases: same files, same machine, same run, and verified solutions."""
