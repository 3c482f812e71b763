"""Errors that a user can cause, and can mend."""


class UserError(Exception):
    """Wrong input: the message names what is wrong, where, and what to do (exit status 2)."""


class DivergenceError(UserError):
    """A simulation left the finite numbers in every world (exit status 3).

    Attributes:
        body: name of the first body that diverged.
        step: physics step at which its state was first not finite.
    """

    def __init__(self, message: str, *, body: str, step: int) -> None:
        super().__init__(message)
        self.body = body
        self.step = step
