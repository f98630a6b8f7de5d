/** Milliseconds a report: the record in, the text that is sent out; and a whole episode with a store in memory. */
import { Device } from "../src/index.js";
import { Tape } from "../src/exact.js";
import { readRound, reportOf } from "../src/reports.js";
import { canonical } from "../src/words.js";
import { Stub, declaration, lawsOf, parsed, readToy, studyAnswer } from "../test/helpers/toy.js";

const SHAPE = { states: 12, actions: 10, horizon: 3, start: null, epsilon: 4 }; // 2 12 10 12 = 2,880 items at a step

function median(values) {
  return values.sort((a, b) => a - b)[values.length >> 1];
}

async function milliseconds(times, work) {
  const taken = [];
  for (let i = 0; i < times; i++) {
    const begun = performance.now();
    await work();
    taken.push(performance.now() - begun);
  }
  return median(taken.slice(times >> 2)); // the first quarter warms up
}

const found = {};
for (const response of ["kary", "unary"]) {
  const study = await readToy(studyAnswer(declaration(SHAPE), response, 1, false));
  const policy = { kind: "deterministic", actions: Array(3).fill(Array(12).fill(0)) };
  const round = await readRound(parsed({ study: study.hash, round: 0, policy, laws: lawsOf(study, policy) }), study);
  if (round.questions[0].size !== 2880) throw new Error("not 2,880 items");
  const [tape, record] = [new Tape(), [[0, 0, 0.3], [3, 0, 0.1], [5, 0, 1]]];
  found[response] = await milliseconds(2000, () => canonical({ report: reportOf(study, round, [0], record, tape) }));
  const stub = await Stub.make({ ...SHAPE, response, masked: false });
  await stub.openRound(policy);
  found[`${response} episode`] = await milliseconds(100, async () => {
    const device = new Device(stub, { studyHash: stub.study.hash, store: ":memory:", atOnce: true });
    await device.begin();
    record.forEach(([state, , reward], step) => device.record(step, state, device.act(step, state), reward));
    await device.finish();
  });
}
console.log(JSON.stringify(found));
