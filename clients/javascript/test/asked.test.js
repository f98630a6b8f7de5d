/** A device that is asked one question: what it agrees to, what it refuses, and what it answers. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Device, Refused } from "../src/index.js";
import { readAsked } from "../src/asked.js";
import { Tape } from "../src/exact.js";
import { Float } from "../src/words.js";
import { Stub, parsed, readToy, studyAnswer, declaration, threshold } from "./helpers/toy.js";

const deviceOf = (stub) => new Device(stub, { studyHash: stub.study.hash, store: ":memory:", atOnce: true });

async function opened(options, policy) {
  const stub = await Stub.make({ asked: true, ...options });
  await stub.openRound(policy);
  return stub;
}

for (const response of ["kary", "unary"]) {
  test(`an episode ends in one answer of the agreed form (${response})`, async () => {
    const seen = new Set();
    for (let i = 0; i < 60; i++) {
      const stub = await opened({ response });
      const device = deviceOf(stub);
      await device.begin();
      if (i % 3) {
        for (let step = 0; step < device.horizon; step++) device.record(step, step % 3, device.act(step, step % 3), 0.5);
        await device.finish();
      } else {
        device.abandon(); // the empty record, which answers "none"
      }
      await device.send();
      const { report } = stub.sent[0];
      const unary = report.question % 2 === 0 && response === "unary";
      assert.deepEqual(Object.keys(report).sort(), [unary ? "bits" : "answer", "kind", "question"].sort());
      assert.equal(report.kind, "answer");
      assert.ok(stub.rounds[0].questions[Math.floor(report.question / 2)] > 0);
      if (unary) assert.match(report.bits, /^[01]{4}$/);
      else assert.ok(report.answer >= 0 && report.answer < (report.question % 2 ? 3 : 4));
      seen.add(report.question % 2);
    }
    assert.equal(seen.size, 2);
  });
}

test("rounds that are not as agreed are refused, and nothing is sent", async () => {
  const less = (response, items) => String(threshold(items, response, [201n, 100n]));
  for (const response of ["kary", "unary"]) {
    for (const [change, words] of [
      [(a) => (a.laws[0].items = 3), /two laws, of 4 and of 3 answers/],
      [(a) => (a.laws[1].items = 2), /two laws/],
      [(a) => a.laws.push(a.laws[0]), /two laws/],
      [(a) => a.laws.pop(), /two laws/],
      [(a) => a.laws.reverse(), /two laws/],
      [(a) => (a.laws[0].lie = less(response, 4)), /does not keep epsilon 2,/],
      [(a) => (a.laws[1].lie = less("kary", 3)), /does not keep epsilon 2,/],
      [(a) => delete a.questions, /'questions' is missing/],
      [(a) => (a.questions = "1"), /must be a list/],
      [(a) => a.questions.pop(), /6 whole numbers/],
      [(a) => (a.questions[0] = -1), /6 whole numbers/],
      [(a) => (a.questions[0] = new Float(1)), /6 whole numbers/],
      [(a) => (a.questions[0] = true), /6 whole numbers/],
      [(a) => (a.questions[0] = 2 ** 30 + 1), /from 0 to 1073741824/],
      [(a) => a.questions.fill(0), /not all of them 0/],
      [(a) => (a.questions[1] = 1), /policy of this round cannot play/],
    ]) {
      const stub = await opened({ response });
      change(stub.rounds[0]);
      const device = deviceOf(stub);
      await assert.rejects(device.begin(), (error) => error instanceof Refused && words.test(error.message));
      assert.deepEqual([await device.reports(), stub.bodies.length], [0, 0]);
    }
  }
  const all = await opened({ masked: false });
  all.rounds[0].questions[1] = 1; // nobody masks here, so anything may be asked
  await deviceOf(all).begin();
});

test("epsilon is shared by all reports", async () => {
  const stub = await opened({ cap: 3 });
  await deviceOf(stub).begin();
  stub.rounds[0].laws[1].lie = String(threshold(3, "kary", [1n, 1n]));
  await assert.rejects(deviceOf(stub).begin(), /does not keep epsilon 0.666/);
});

test("a device that knows nothing of the kind's response refuses", async () => {
  const stub = await opened();
  stub.answer.report.response = "plain";
  await assert.rejects(deviceOf(stub).begin(), /kary or unary response/);
});

test("answers are those of the first visit", async () => {
  const study = await readToy(studyAnswer(declaration({ start: null }), "kary", 1, false, true));
  const laws = [{ items: 4, threshold: 1n }, { items: 3, threshold: 1n }];
  const truthful = { ...study, epsilon: 60 }; // such laws keep no smaller one
  const { asked } = readAsked(parsed({ questions: [1, 1, 1, 1, 1, 1] }), truthful, { laws });
  const tape = new Tape((count) => new Uint8Array(count)); // numbers of zero: the truth, and a reward above the lowest is a one
  const record = [[1, 0, 0], [2, 1, 1], [1, 0, 1], [0, 1, 0]];
  const said = (row, about, of = record) => asked.answer(2 * row + about, of, tape).answer;
  assert.deepEqual([said(2, 0), said(2, 1)], [2, 0]); // state 1, action 0: first at step 0
  assert.deepEqual([said(5, 0), said(5, 1)], [1, 1]);
  assert.deepEqual([said(1, 0), said(1, 1)], [3, 0]); // the last step has no successor
  assert.deepEqual([said(0, 0), said(0, 1)], [3, 2]); // never visited
  assert.deepEqual([said(2, 0, []), said(2, 1, [])], [3, 2]);
  assert.deepEqual([said(5, 0, record.slice(0, 2)), said(5, 1, record.slice(0, 2))], [3, 1]); // an early end
  assert.deepEqual([said(2, 0, record.slice(0, 2)), said(2, 1, record.slice(0, 2))], [2, 0]); // and the step before it
});
