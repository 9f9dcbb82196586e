"""Objectives: what training pushes towards, as forces and curvatures on the scores."""
