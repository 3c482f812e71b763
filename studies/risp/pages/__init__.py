"""Pages and pictures of finished tables."""
