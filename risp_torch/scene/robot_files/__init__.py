"""Robot files: URDF and MJCF, read into one description of links, joints and shapes."""
