"""Compiled loops, and the only place with numba.

Functions take arrays and plain numbers, allocate nothing inside their loops, release
the GIL and are cached on disk. A family of loops lives in one file, because numba's
cache notices changes of the outer function's file only.
"""
