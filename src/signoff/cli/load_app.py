"""Loads the app that ``module:app`` names."""

from __future__ import annotations

import importlib
import os
import sys
import traceback

import signoff
from signoff.app import Signoff
from signoff.cli.exit_codes import CommandFailed, ExitCode

_LIBRARIES = (os.path.dirname(os.__file__) + os.sep, os.path.dirname(signoff.__file__) + os.sep)


def load_app(address: str) -> Signoff:
    """Import a module, from the working directory first, and return its app.

    Args:
        address: ``module:app``; the app may be an attribute of an attribute.

    Raises:
        CommandFailed: The module or app does not exist, or the module cannot be imported. The message names the
            user's file and line.
    """
    module_name, colon, attribute = address.partition(":")
    if module_name.endswith(".py") or os.sep in module_name:
        dotted = module_name.removesuffix(".py").strip("./").replace(os.sep, ".")
        raise _unusable(f"{address!r} is a file: give the module, as in {dotted}:{attribute or 'app'}")
    if not colon or not module_name or not attribute:
        raise _unusable(
            f"{address!r} does not name an app: give module:app, as in {module_name or 'orders'}:app"
        )
    return _app_in(_import(module_name), module_name, attribute)


def _import(name: str) -> object:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    # Cached bytecode is matched by time in seconds and by size, so a quick edit could load the old code.
    sys.dont_write_bytecode = True
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise _unusable(
                f"no module {error.name!r} in {os.getcwd()} or among the installed packages"
            ) from error
        raise _broken(name, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error


def _broken(name: str, error: BaseException) -> CommandFailed:
    if isinstance(error, SyntaxError):
        where, what = f"{_shown(error.filename)}:{error.lineno}", f"{type(error).__name__}: {error.msg}"
    else:
        lines = traceback.extract_tb(error.__traceback__)
        here = [
            line for line in lines if not line.filename.startswith("<frozen ") and line.filename != __file__
        ]
        last = next((line for line in reversed(here) if not _is_library(line.filename)), None)
        where = f"{_shown(last.filename)}:{last.lineno}" if last else f"module {name!r}"
        what = f"{type(error).__name__}: {error}"
    return _unusable(f"{where}: {' '.join(what.split())}")


def _is_library(file: str) -> bool:
    return file.startswith(("<", *_LIBRARIES)) or "site-packages" in file


def _shown(file: str | None) -> str:
    if file is None:
        return "<unknown file>"
    relative = os.path.relpath(file)
    return file if relative.startswith("..") else relative


def _app_in(module: object, module_name: str, attribute: str) -> Signoff:
    found = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise _unusable(f"module {module_name!r} has no {attribute!r}{_apps_of(module, module_name)}")
        found = getattr(found, part)
    if not isinstance(found, Signoff):
        kind = type(found).__name__
        raise _unusable(
            f"{module_name}:{attribute} is of type {kind}, not a Signoff app{_apps_of(module, module_name)}"
        )
    return found


def _apps_of(module: object, module_name: str) -> str:
    names = [f"{module_name}:{name}" for name, value in vars(module).items() if isinstance(value, Signoff)]
    return f"; did you mean {' or '.join(names)}?" if names else "; it needs app = Signoff(...)"


def _unusable(message: str) -> CommandFailed:
    return CommandFailed(ExitCode.USAGE, message)
