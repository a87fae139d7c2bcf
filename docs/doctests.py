"""For the reference: examples in docstrings are shown as code. A griffe extension."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?:^>>> .*\n?(?:^(?!>>> )\S.*\n?)*)+", re.MULTILINE)


class Doctests(griffe.Extension):
    """Put fences around what Python's doctest would run."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = _EXAMPLE.sub(
                lambda found: f"```python\n{found[0].rstrip()}\n```\n", obj.docstring.value
            )
