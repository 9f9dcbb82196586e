"""Linear combinations of models with the best weights for a metric."""
