"""What users pass in: parameters, tables, targets, checked once."""
