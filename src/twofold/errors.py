"""The one error that a user of Twofold sees."""


class SpecError(ValueError):
    """Input that cannot be accepted: says the field, the value and what is accepted, in one line.

    ``value`` None: nothing was given.
    """

    def __init__(self, field: str, value: object, accepted: str) -> None:
        self.field, self.value, self.accepted = field, value, accepted
        found = "missing" if value is None else f"{value!r} is not accepted"
        super().__init__(f"{field}: {found}; {accepted}")

    def __reduce__(self) -> tuple[type["SpecError"], tuple[str, object, str]]:
        return type(self), (self.field, self.value, self.accepted)
