"""RISP's inversions (system identification, imitation, visuomotor control), one at a time, by any method."""
