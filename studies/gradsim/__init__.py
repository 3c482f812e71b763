"""Tables and figures of gradSim (Jatavallabhula et al., ICLR 2021, and its earlier version), in a stricter protocol."""
