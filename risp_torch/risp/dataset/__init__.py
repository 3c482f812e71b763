"""Training data of RISP: pictures, their derivatives by psi, and states, from shards or from the renderer."""
