"""What a server or a device refuses, by the names of IETF's DAP draft where it has one."""

from __future__ import annotations

from typing import Literal

from epicrec.errors import EpicrecError

Kind = Literal[
    "invalidMessage",  # it cannot be read, or a signature or hash in it is wrong
    "unrecognizedTask",  # no such task or round here, or its key is gone
    "outdatedConfig",  # parameters or keys are not those of the round
    "reportRejected",  # this report cannot be taken, now or ever
    "reportTooLate",  # the round takes no more reports
    "batchInvalid",  # a list of reports that is no set, too short or too long
    "batchQueriedMultipleTimes",  # the round was collected with another list
    "stepMismatch",  # this comes before or after its turn
    "unauthorizedRequest",
]


PROBLEM = "urn:ietf:params:ppm:dap:error:"
"""Before a kind, the type of a problem document."""


class Refusal(EpicrecError):
    """Something was asked that the protocol does not allow; `kind` is its name."""

    def __init__(self, kind: Kind, why: str) -> None:
        super().__init__(why)
        self.kind = kind
