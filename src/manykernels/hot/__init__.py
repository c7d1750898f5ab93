"""Compiled loops, and the only place with numba.

Functions take arrays and plain numbers, allocate nothing inside their loops, release
the GIL and are cached on disk. `jit` imports numba when the first loop runs.
"""
