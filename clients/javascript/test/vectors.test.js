/** The vectors that clients in all languages share: random bytes in, reports out, and every byte is read. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Tape, given, rewardFraction } from "../src/exact.js";
import { keeps, readLaw } from "../src/laws.js";
import { numberOf } from "../src/questions.js";
import { pick, readRound, reportOf } from "../src/reports.js";
import { shuffledMessages } from "../src/shuffled.js";
import { perStep } from "../src/study.js";
import { Float, parse, unhex } from "../src/words.js";
import { readToy } from "./helpers/toy.js";

const shared = (name) => parse(readFileSync(new URL(`../../../tests/client/${name}`, import.meta.url), "utf8"));
const SHARED = shared("vectors.json");
const plain = (value) => (value instanceof Float ? value.value : value);

/** What this client makes of the input of a vector. */
async function run(vector, tape) {
  switch (vector.what) {
    case "below":
      return tape.below(BigInt(vector.n));
    case "reward":
      return Number(tape.chance(rewardFraction(plain(vector.reward), plain(vector.low), plain(vector.high))));
    case "pick":
      return tape.pick(vector.horizon, vector.steps);
    case "kary":
      return tape.item(vector.item, vector.items, BigInt(vector.threshold));
    case "unary":
      return tape.bits(vector.item, vector.items, BigInt(vector.threshold));
  }
  const setting = SHARED.settings[vector.setting];
  setting.read ??= await readToy(setting.study);
  setting.round ??= await readRound(setting.policy, setting.read);
  if (vector.what === "item") {
    const [state, action, ...rest] = vector.cell;
    return numberOf(setting.round.questions[vector.step], state * setting.read.actions + action, ...rest);
  }
  const record = vector.record.map((step) => step.map(plain));
  return reportOf(setting.read, setting.round, pick(setting.read, setting.round, tape), record, tape);
}

test("every shared vector gives its result and reads its whole tape", async () => {
  assert.ok(SHARED.vectors.length >= 1300);
  const kinds = new Set();
  for (const vector of SHARED.vectors) {
    const bytes = unhex(vector.tape ?? "");
    const source = given(bytes);
    const found = await run(vector, new Tape(source));
    const wanted = vector.what === "below" ? BigInt(vector.result) : vector.result;
    assert.deepEqual(found, typeof wanted === "object" && wanted && !Array.isArray(wanted) ? { ...wanted } : wanted);
    assert.equal(source.read, bytes.length);
    kinds.add(vector.what === "report" ? vector.result.kind : vector.what);
  }
  assert.deepEqual([...kinds].sort(), ["answer", "below", "bits", "item", "items", "kary", "pick", "record", "reward", "unary"]);
});

test("the thresholds that the server states are accepted, and slightly smaller ones are not", async () => {
  let seen = 0;
  for (const { study: answer, policy } of SHARED.settings) {
    const study = await readToy(answer);
    for (const [place, law] of (policy.laws ?? []).map(readLaw).entries()) {
      const aboutBits = study.kind.name === "asked-first-visit" && place === 1;
      const [response, most] = [aboutBits ? "kary" : study.kind.response, perStep(study)];
      assert.ok(keeps(law, response, most));
      assert.ok(!keeps({ ...law, threshold: law.threshold - law.threshold / 10n ** 9n }, response, most));
      seen++;
    }
  }
  assert.ok(seen > 50);
});

test("every shared vector of shuffled studies gives its messages and reads its whole tape", async () => {
  const { settings, vectors, refused } = shared("shuffled_vectors.json");
  const kinds = new Set();
  for (const vector of vectors) {
    const setting = settings[vector.setting];
    setting.read ??= await readToy(setting.study);
    setting.round ??= await readRound(setting.policy, setting.read);
    const bytes = unhex(vector.tape);
    const source = given(bytes);
    const record = vector.record.map((step) => step.map(plain));
    assert.deepEqual(shuffledMessages(setting.read, setting.round, record, new Tape(source)), vector.result);
    assert.equal(source.read, bytes.length);
    assert.equal(setting.round.terms, setting.terms);
    kinds.add(setting.read.kind.name);
  }
  assert.deepEqual([...kinds].sort(), ["answered-bits", "one-item"]);
  assert.ok(vectors.length >= 200);
  for (const { setting, laws } of refused) {
    await assert.rejects(readRound({ ...settings[setting].policy, laws }, settings[setting].read), /does not keep epsilon/);
  }
  assert.ok(refused.length > 20);
});

test("a wrong byte changes reports: the vectors can fail", async () => {
  let changed = 0;
  for (const vector of SHARED.vectors.filter((each) => each.what === "kary")) {
    const bytes = unhex(vector.tape).map((byte) => byte ^ 0x80);
    changed += (await run(vector, new Tape(given(bytes)))) !== vector.result;
  }
  assert.ok(changed > 20);
});

test("a tape that is used up refuses", () => {
  assert.throws(() => new Tape(given(new Uint8Array(7))).number(), /used up/);
});
