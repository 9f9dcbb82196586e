"""Trees: binning, growing, leaves, scoring and contributions. Arrays in, arrays out."""
