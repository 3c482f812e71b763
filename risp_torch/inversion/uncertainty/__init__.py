"""Error bars: covariance, compression, rounding, appearance errors, and the distance to the minimum."""
