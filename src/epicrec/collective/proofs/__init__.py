"""Proofs of norm: each report proves that its vector is no longer than Δ, and shows nothing else.

PINE (Rothblum, Omri, Chen and Talwar 2023; draft-chen-cfrg-vdaf-pine-01) over the field of
q = 2⁶⁴ - 2³² + 1 elements. `field` computes modulo q, `circuits` has the two fully linear proofs,
and `pine` makes and checks the shares of a report.
"""
