"""The boosting loop: objective, trees, sampling and early stopping put together."""
