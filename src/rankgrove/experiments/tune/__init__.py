"""The search for parameters: spaces, trials, the study that keeps them."""
