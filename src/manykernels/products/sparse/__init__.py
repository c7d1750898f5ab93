"""p = 1: short lists of terms, found by column generation and refitted."""
