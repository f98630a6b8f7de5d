"""``discreet worlds`` and ``discreet learners``: what there is, with options and their defaults."""

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


def learners(json: JsonFile = None) -> None:
    """List the learners: what they need to be told, options with their defaults, source."""
    check_outputs(json_file=json)
    from discreet.learners.registry import LEARNERS

    entries = [
        {
            "name": name,
            "summary": learner.summary,
            "needs": sorted(getattr(learner.make, "needs", ())),
            "options": learner.options,
            "source": learner.source,
        }
        for name, learner in LEARNERS.items()
    ]
    write_json(json, entries)
    print_catalogue(entries)
