"""What a certificate holds: every number exactly, every step, and nothing that was not derived."""

from __future__ import annotations

import json
import math
import pickle
from fractions import Fraction
from pathlib import Path

import pytest

from certified import some, steps
from discreet.base.errors import InvalidInput
from discreet.noise import DiscreteGaussian, DiscreteLaplace
from discreet.privacy import guarantee as rules
from discreet.privacy.certificate import exact, kebab, raised
from discreet.privacy.messages import AnsweredBits
from discreet.privacy.profiles import PureProfile
from discreet.privacy.sensitivity import Sensitivity

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "certificate.schema.json").read_text())


def one(scale=2.0, delta=0.0):
    return rules.from_mechanism(DiscreteLaplace(scale), Sensitivity.unit_shifts(1, 1), delta=delta, name="counts")


def test_numbers_are_exact():
    for value in (0.0, 0.1, 1e-5, 1 / 3, 2.0**-60, 123456.789, 5e300, 5e-300):
        assert Fraction(exact(value)) == Fraction(value)
    with pytest.raises(InvalidInput, match="finite"):
        exact(math.nan)
    with pytest.raises(InvalidInput, match="not negative"):
        exact(-1.0)


def test_stated_numbers_are_raised_by_less_than_anybody_sees():
    for value in (0.1, 1.0, 1e-5, 20.0):
        assert 1 < Fraction(raised(value)) / Fraction(value) < 1 + 1e-12
    assert raised(math.inf) is None
    assert raised(None) is None
    assert raised(0.0) in ("0", "0.0")


def test_a_certificate_lists_the_law_the_moves_and_the_steps():
    found = rules.billboard(rules.parallel(one(), "disjoint blocks")).certificate()
    assert (found["format"], found["version"], found["model"]) == ("discreet-certificate", 2, "joint")
    assert [step["kind"] for step in steps(found["steps"], "billboard", "parallel", "mechanism")] == [
        "billboard", "parallel", "mechanism"
    ]  # fmt: skip
    (leaf,) = steps(found["steps"], "mechanism")
    assert leaf["law"] == {"kind": "discrete-laplace", "scale": "2"}
    assert leaf["moves"]["worst"] == [[1, 1, 1]]
    assert Fraction(leaf["moves"]["l2"]) == Fraction(math.sqrt(2))
    assert found["stated"]["delta"] == "0"
    assert found["noise"] == "not drawn yet"
    assert found["versions"]["discreet"]


def test_every_rule_leaves_its_step():
    report = rules.from_reports(
        PureProfile(1.0), delta=0.0, name="bits", moves="a bit", law="answers", message=AnsweredBits(Fraction(1, 4), 1)
    )
    either = rules.one_of([one(), one(3.0)], "public")
    whole = rules.compose([one(), one(3.0)], delta=0.0, why="both")
    assert whole.certificate()["steps"]["parts"] == 2
    for made, kind in (
        (report, "reports"), (either, "one-of"), (whole, "compose"), (rules.post_process(one(), "why"), "post-process"),
        (rules.several_trajectories(report, 3), "group"), (rules.locally(one()), "local"),
        (rules.through_shuffler(one(), "why"), "through-shuffler"),
        (rules.with_more_trust(rules.locally(one()), "joint"), "more-trust"),
        (rules.left_out(one(), "why", one()), "left-out"), (rules.nothing(), "nothing"),
        (rules.unbounded("why", model="joint", delta=0.1, apart=one()), "unbounded"),
        (rules.shuffled([one(2.0, 1e-5)], epsilon=1.0, delta=1e-5, why="why"), "shuffled"),
    ):  # fmt: skip
        assert made.certificate()["steps"]["kind"] == kind
    assert report.certificate()["steps"]["message"] == {
        "kind": "answered-bits", "lie": "1/4", "bits": 1, "others": 0
    }  # fmt: skip


def test_a_report_without_its_fractions_says_so():
    made = rules.from_reports(PureProfile(1.0), delta=0.0, name="bits", moves="a bit", law="answers")
    assert made.certificate()["steps"]["message"] == {"kind": "undescribed"}


def test_copies_keep_their_certificate():
    made = rules.billboard(one())
    assert pickle.loads(pickle.dumps(made)).certificate() == made.certificate()


def test_names_of_laws():
    assert kebab(type(DiscreteGaussian(1.0)).__name__) == "discrete-gaussian"


def valid(value, schema):
    """As much of JSON Schema as the one in the docs uses."""
    if "$ref" in schema:
        return valid(value, SCHEMA["$defs"][schema["$ref"].split("/")[-1]])
    if "anyOf" in schema:
        return any(valid(value, option) for option in schema["anyOf"])
    if "const" in schema:
        return value == schema["const"]
    if "enum" in schema and value not in schema["enum"]:
        return False
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None), "integer": int}
    if "type" in schema and not isinstance(value, kinds[schema["type"]]):
        return False
    if isinstance(value, dict):
        known = schema.get("properties", {})
        if not set(schema.get("required", ())) <= set(value):
            return False
        if schema.get("additionalProperties") is False and not set(value) <= set(known):
            return False
        return all(valid(entry, known[name]) for name, entry in value.items() if name in known)
    if isinstance(value, list) and "items" in schema:
        return all(valid(entry, schema["items"]) for entry in value)
    return True


def test_certificates_follow_the_schema():
    assert len(some()) > 30
    for certificate in some():
        assert valid(certificate, SCHEMA), certificate
    broken = {**some()[0], "stated": {"epsilon": 1.0, "delta": "0", "rho": None}}
    assert not valid(broken, SCHEMA)
    assert not valid({name: entry for name, entry in some()[0].items() if name != "steps"}, SCHEMA)
