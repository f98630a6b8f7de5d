"""``discreet learners``: the algorithms there are."""

from __future__ import annotations

from discreet.cli.options import JsonFile
from discreet.cli.output import check_outputs, print_catalogue, write_json


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
