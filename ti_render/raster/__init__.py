"""How faces become pixels: fragments, tiles, the two rasterisers, their adjoints and tangents."""
