"""Speed side by side with other tools, on public cases: the same files, machine and run, and the answers checked."""
