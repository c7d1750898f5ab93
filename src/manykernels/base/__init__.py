"""What every layer stands on: array types, threads, memory limits."""
