"""Experiments that can be believed: compare, tune, combine, and the tables of the paper."""
