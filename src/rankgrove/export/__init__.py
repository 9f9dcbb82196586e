"""Models for other programs: one file per format, on one set of exact rules, checked when made."""
