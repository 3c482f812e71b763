"""What writes tables and pictures into README.md and docs."""
