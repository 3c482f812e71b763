"""Half-real films: measured tosses of ContactNets' cube, path-traced in drawn looks, and their numbers from pixels."""
