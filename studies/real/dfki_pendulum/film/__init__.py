"""The hand-held film: camera, look and angles."""
