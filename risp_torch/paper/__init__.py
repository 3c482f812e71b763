"""The tables of the RISP paper: trials of every method, and the pages that they fill."""
