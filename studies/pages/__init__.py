"""Programs that write tables and pictures into README.md and docs."""
