"""``discreet worlds``: the decision problems there are."""

from __future__ import annotations

from discreet.cli.options import JsonFile
from discreet.cli.output import check_outputs, print_catalogue, write_json


def worlds(json: JsonFile = None) -> None:
    """List the worlds, and their options with their defaults."""
    check_outputs(json_file=json)
    from discreet.worlds.registry import WORLDS

    entries = [{"name": name, "summary": world.summary, "options": world.options} for name, world in WORLDS.items()]
    write_json(json, entries)
    print_catalogue(entries)
