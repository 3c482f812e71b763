"""What all solvers share: how a rollout runs, what it keeps for its adjoint, and what becomes of worlds that diverge."""
