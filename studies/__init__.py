"""What reproduces papers and makes the tables and pictures of the documentation. Nothing imports it, and no wheel holds it."""
