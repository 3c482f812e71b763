"""How often error bars hold the truth, and how often a wrong scene is doubted."""
