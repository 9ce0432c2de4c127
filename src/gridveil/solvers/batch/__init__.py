"""Batches of optimal power flows on one network: one source of kernels for GPUs (CuPy, NVRTC) and for CPUs (g++).

Nothing here needs more than NumPy to import: networks are lowered, and leftovers solved, by the structured solver, which is
imported only for that.
"""
