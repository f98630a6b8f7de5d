"""What was typed wrongly, as one sentence with the remedy.

The parser of the command line knows what it did not understand; this says what to type instead: an option of a world or
of a recipe goes behind ``--world-option`` or ``--option``, ``20k`` is written ``20000``, and a name that is nearly
right is shown as it should be.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from discreet.base.errors import nearest

# The class of all mistakes of usage, wherever this version of typer has it from.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]
_MANY = {"k": 10**3, "m": 10**6}
_CHOICES = ("--learner", "--recipe", "--privacy")
_HELP = ("help", "-help", "?")
_LONGEST = 60


def usage_sentence(error: Any, arguments: Sequence[str]) -> str:
    """One sentence, on one line, about a mistake of usage."""
    return " ".join(_sentence(error, arguments).split())


def _sentence(error: Any, arguments: Sequence[str]) -> str:
    kind = type(error).__name__
    if kind == "NoSuchOption":
        return _no_such_option(error, arguments)
    if kind == "MissingParameter":
        return f"{_named(error.param)} is missing{_see_help(error)}"
    if kind == "BadParameter" and error.param is not None:
        return _bad_value(error, arguments)
    message = " ".join(str(error.format_message()).split()).rstrip(".")
    if message.startswith("No such command"):
        return _no_such_command(error, message, arguments)
    extra = re.search(r"unexpected extra argument\S* \((.*)\)", message)
    if extra:
        words = extra[1][:_LONGEST]
        if words in _HELP and error.ctx is not None:
            return f"help is an option: write {error.ctx.command_path} --help"
        return f"unexpected argument {words!r}: a value stands behind the name of its option{_see_help(error)}"
    option = re.search(r"Option '(\S+)' requires (\w+) argument", message)
    if option:
        return _two_values(option[1], arguments) if option[2] == "2" else f"{option[1]} needs a value behind it"
    return f"{message[:1].lower()}{message[1:]}{_see_help(error)}"


def is_help(error: Exception) -> bool:
    """Whether nothing was wrong but that nothing was asked for: the message is the help."""
    return type(error).__name__ == "NoArgsIsHelpError"


def missing_command(error: Any) -> str:
    """What is said where a group was named without a command, and its help was shown."""
    if error.ctx.parent is None:
        return ""
    return f"discreet: a command is missing behind {error.ctx.command_path}: {', '.join(error.ctx.command.commands)}"


def _no_such_option(error: Any, arguments: Sequence[str]) -> str:
    given = str(error.option_name)[:_LONGEST]
    name, value = given.lstrip("-").replace("-", "_"), _value_of(given, arguments) or "VALUE"
    there = {option for parameter in _parameters(error) for option in (*parameter.opts, *parameter.secondary_opts)}
    for option, owner, known in _owners(there, arguments):
        if name in known:
            return f"{given} is an option of {owner}: write {option} {name}={value}"
    command = _command_behind(error, arguments)
    if command is not None:
        return f"{given} stands before its command: write discreet {command} {given}"
    names = sorted(option[2:] for option in there if option.startswith("--"))
    near = [f"--{option}" for option in nearest(name, names, cutoff=0.65)]
    return f"there is no option {given}" + (f": did you mean {' or '.join(near)}?" if near else _see_help(error))


def _owners(there: set[str], arguments: Sequence[str]) -> list[tuple[str, str, Mapping[str, Any]]]:
    """Options that a command passes on: to its world, to its learner, to a recipe."""
    owners: list[tuple[str, str, Mapping[str, Any]]] = []
    if "--world-option" in there:
        from discreet.worlds.registry import WORLDS

        world = _value_of("--world", arguments) or "river-swim"
        owners += [("--world-option", f"world {world}", WORLDS[world].options)] if world in WORLDS else []
    if "--option" in there:
        from discreet.learners.registry import LEARNERS
        from discreet.recipes.registry import recipes

        learner = _value_of("--learner", arguments) or "ucbvi"
        owners += [("--option", f"learner {learner}", LEARNERS[learner].options)] if learner in LEARNERS else []
        owners.append(("--option", "recipes", {name: None for recipe in recipes() for name in recipe.options}))
    return owners


def _bad_value(error: Any, arguments: Sequence[str]) -> str:
    names = [option for option in error.param.opts if option.startswith("--")]
    given = next((value for name in names if (value := _value_of(name, arguments))), None)
    said = str(error.message).lower()
    bound = re.search(r"(greater|less) than or equal to (\S+)", said)
    if bound:
        most = "least" if bound[1] == "greater" else "most"
        return f"{_named(error.param)} must be at {most} {bound[2]}, got {str(given)[:_LONGEST]}"
    whole = re.search(r"\bint(eger)?\b", said) is not None
    number = "float" in said or "number" in said
    if not (whole or number):
        return f"{_named(error.param)}: {' '.join(str(error.message).split()).rstrip('.')}"
    if error.param.nargs == 2:
        return _two_values(_named(error.param), arguments)
    what = "a whole number" if whole else "a number"
    got = "" if given is None else f", got {given[:_LONGEST]!r}"
    return f"{_named(error.param)} must be {what}{got}{_meant(given, whole)}"


def _two_values(option: str, arguments: Sequence[str]) -> str:
    typed = re.split("[, ]+", _value_of(option, arguments) or "")
    values = " ".join(typed) if len(typed) == 2 else "0 1"
    return f"{option} needs two values, separated by a space: write {option} {values}"


def _meant(text: str | None, whole: bool) -> str:
    """The number that somebody who typed ``20k``, ``1e4``, ``1,5`` or ``20,000`` meant."""
    found = re.fullmatch(r"([0-9][0-9_.,]*(?:e[0-9]+)?)([km]?)", (text or "").lower())
    if found is None:
        return ""
    digits = found[1].replace(",", "") if whole else found[1].replace(",", ".")
    try:
        number = float(digits) * _MANY.get(found[2], 1)
    except ValueError:
        return ""
    if not math.isfinite(number) or (whole and (number != int(number) or number > 10**15)):
        return ""
    return f": write {int(number)}" if whole else f": write {number:g}"


def _no_such_command(error: Any, message: str, arguments: Sequence[str]) -> str:
    given = message.partition("'")[2].partition("'")[0][:_LONGEST]
    commands = list(error.ctx.command.commands) if error.ctx is not None else []
    path = "discreet" if error.ctx is None else error.ctx.command_path
    if given in _HELP:
        asked = next((f" {argument}" for argument in arguments if argument in commands), "")
        return f"help is an option: write {path}{asked} --help"
    if given == "version":
        return "the version is an option: write discreet --version"
    near = nearest(given, commands)
    return f"unknown command {given!r}: " + (
        f"did you mean {' or '.join(near)}?" if near else f"choose one of {', '.join(commands)}"
    )


def _command_behind(error: Any, arguments: Sequence[str]) -> str | None:
    """The command that was typed after an option that only commands have."""
    if error.ctx is None or error.ctx.parent is not None:
        return None
    return next((argument for argument in arguments if argument in error.ctx.command.commands), None)


def repeated_choice(command: Any, arguments: Sequence[str]) -> str | None:
    """An option that takes one value and was given twice: the parser would forget the first in silence."""
    for name in arguments:
        if name.startswith("-") or name not in getattr(command, "commands", {}):
            break
        command, arguments = command.commands[name], arguments[1:]
    typed = [argument.partition("=")[0] for argument in arguments[: _end_of_options(arguments)]]
    for parameter in command.params:
        names = [] if getattr(parameter, "is_flag", False) or parameter.multiple else parameter.opts
        if sum(name.startswith("--") * typed.count(name) for name in names) > 1:
            remedy = "discreet rehearse compares several" if _named(parameter) in _CHOICES else "leave one out"
            return f"{_named(parameter)} was given twice, and {command.name} takes one: {remedy}"
    return None


def _end_of_options(arguments: Sequence[str]) -> int:
    return arguments.index("--") if "--" in arguments else len(arguments)


def _named(parameter: Any) -> str:
    """A parameter as it is typed: its long option, or the name of an argument."""
    options = [option for option in parameter.opts if option.startswith("--")]
    return options[0] if options else str(parameter.metavar or parameter.name.upper())


def _parameters(error: Any) -> Sequence[Any]:
    return [] if error.ctx is None else list(error.ctx.command.params)


def _value_of(option: str, arguments: Sequence[str]) -> str | None:
    """What was typed behind an option, as ``--name value`` or ``--name=value``."""
    for index, argument in enumerate(arguments):
        if argument.startswith(f"{option}="):
            return argument.partition("=")[2]
        if argument == option and index + 1 < len(arguments):
            return arguments[index + 1]
    return None


def _see_help(error: Any) -> str:
    return "" if error.ctx is None else f"; see {error.ctx.command_path} --help"
