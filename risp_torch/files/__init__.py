"""Files in and out: videos, run folders, pictures and reports, and what keeps them whole."""
