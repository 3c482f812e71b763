"""Studies that reproduce papers and make the tables and pictures of the documentation. The product does not import them."""
