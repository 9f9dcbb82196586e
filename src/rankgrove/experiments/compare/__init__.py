"""Several models on the same queries: measured, tested for significance, sliced, drawn."""
