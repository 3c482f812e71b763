"""Results of an inversion and the files of its run folder."""
