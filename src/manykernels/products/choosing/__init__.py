"""What left-out rows choose: whether there are terms, and which list of them."""
