"""The device: reading a viewing history, choosing what leaves it, and showing recommendations.

`device.py` holds the parts together. From below: `store` (the file on disk, sealed by `vault`),
`viewing` and `history` (what was watched), `matching`, `imports`, `ranking`, `sending`, then the
pages (`web`), and `main`, which starts them.
"""
