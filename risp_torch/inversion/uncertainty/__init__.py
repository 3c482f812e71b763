"""Error bars: covariance, compression, rounding, appearance errors, and the distance to the minimum.

Which errors count as correlated is decided in ``problem/residual_blocks.py`` and by ``blocks`` of each loss.
"""
