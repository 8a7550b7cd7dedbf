"""Floors whose name is also a verb of the Python API: ``twofold.simulate`` is a package that can be called."""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class Verb(ModuleType):
    """A package with a function of its own name, which calling the package calls."""

    home: str

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call the function; see ``home``, the module that it is in, for what it takes."""
        name = self.__name__.rpartition(".")[2]
        return getattr(import_module(f"{self.__name__}.{self.home}"), name)(*args, **options)


def make_verb(package: str, home: str) -> None:
    """Let ``package`` be called as the function of its name in its module ``home``."""
    module = sys.modules[package]
    module.__class__ = Verb
    module.__dict__["home"] = home
