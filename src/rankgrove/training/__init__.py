"""A training run, whatever it trains: steps, validation, checkpoints and base models."""
