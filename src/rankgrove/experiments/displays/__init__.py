"""Pictures of models, rankings and training: computed once, drawn at will."""
