"""Models: trained trees with what is needed to score, to keep and to explain them."""
