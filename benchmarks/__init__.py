"""Speed and memory, measured: ``python -m benchmarks rigid raster`` from the root of the repository."""
