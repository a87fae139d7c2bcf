"""The exceptions raised on purpose. Each message says what was wrong, where, and what to do."""


class EpicrecError(Exception):
    """Anything that went wrong inside epicrec; catch this to catch them all."""


class InputError(EpicrecError, ValueError):
    """The caller's data or arguments are unusable; nothing was changed."""


class BudgetExceededError(EpicrecError):
    """A release would cost more than its ledger's limit allows; nothing was released."""


class EpicrecWarning(UserWarning):
    """Something that was done, and that the caller may not have meant."""


class NotFittedError(EpicrecError):
    """The model has learned nothing yet: call `fit` or `load` first."""
