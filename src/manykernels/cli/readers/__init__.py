"""Tables and sequences from files."""
