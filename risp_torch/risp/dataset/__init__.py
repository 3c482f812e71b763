"""Training data of RISP: pictures, their derivatives with respect to psi, and states, from shards or from the renderer."""
