"""Errors that a user can cause and fix."""


class UserError(Exception):
    """Wrong input. The message states what is wrong, where, and what to do (exit status 2)."""


class DivergenceError(UserError):
    """A simulation diverged in every world (exit status 3).

    Attributes:
        body: name of the first body that diverged.
        step: physics step at which its state was first not finite.
    """

    def __init__(self, message: str, *, body: str, step: int) -> None:
        super().__init__(message)
        self.body = body
        self.step = step


class ConvergenceError(DivergenceError):
    """An implicit step did not converge in any world (exit status 3).

    Attributes:
        body: name of the body with the largest residual.
        step: step that did not converge.
    """
