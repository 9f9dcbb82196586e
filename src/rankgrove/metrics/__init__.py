"""Metrics: values with a name, a formula and a written policy on ties and empty queries."""
