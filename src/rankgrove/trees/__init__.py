"""Trees: binning so far; histograms, splits, growers and scoring follow. Arrays in, arrays out."""
