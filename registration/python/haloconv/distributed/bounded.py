"""A memory of problems that does not grow without end."""


class BoundedDict(dict):
    """A dictionary that forgets all it holds before it would hold more than so many keys.

    A network asks for the same keys at each step, so what was forgotten soon returns. Only
    ``self[key] = value`` looks at the bound.
    """

    def __init__(self, most: int = 4096) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: object, value: object) -> None:
        if key not in self and len(self) >= self._most:
            self.clear()
        super().__setitem__(key, value)
