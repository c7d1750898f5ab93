"""What a statistician reads of fitted terms."""
