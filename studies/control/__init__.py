"""Control with feedback from pictures and with replanning."""
