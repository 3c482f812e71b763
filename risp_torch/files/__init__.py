"""Files: videos, run folders, images and reports, with atomic writes."""
