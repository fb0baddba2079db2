"""Every method on the same data sets, splits and seeds, beside pooled k-means."""
