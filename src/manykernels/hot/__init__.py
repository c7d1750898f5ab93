"""Compiled loops, and the only place with numba.

Functions take arrays and plain numbers, allocate nothing inside their loops, release
the GIL and are cached on disk, where a change in any file whose loops are called is
noticed. `lazy` imports numba when the first loop runs.
"""
