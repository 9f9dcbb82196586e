"""Distilling: one small model of trees from a large one, by its scores."""
