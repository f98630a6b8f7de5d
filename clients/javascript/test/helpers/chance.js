/** The chi-square test of reports against their exact law, and its p-value. */
import { Tape, systemEntropy } from "../../src/exact.js";
import { numberOf } from "../../src/questions.js";
import { pick, readRound, reportOf } from "../../src/reports.js";
import { declaration, lawsOf, parsed, readToy, studyAnswer } from "./toy.js";

export const FALSE_ALARM = 1e-9;

/** A study, a round and a record. With k-ary reports its middle reward is no bit; with one it would be shared by the
 * bits of two items, which then were not independent. */
export async function setting(response, epsilon) {
  const study = await readToy(studyAnswer(declaration({ horizon: 3, rewards: [-1, 1], epsilon }), response));
  const policy = { kind: "deterministic", actions: [[0, 1, 0], [1, 1, 0], [0, 0, 1]] };
  const round = await readRound(parsed({ study: study.hash, round: 0, policy, laws: lawsOf(study, policy) }), study);
  return { study, round, record: [[0, 0, 1], [1, 1, response === "kary" ? -0.4 : 1], [2, 1, -1]] };
}

/** The exact chance of each item of a step: of being reported (k-ary), or of a one (unary). */
function lawAt({ study, round, record }, step, response) {
  const { items, threshold } = round.laws[step];
  const lie = Number(threshold) / 2 ** 62;
  const truth = response === "kary" ? 1 - (items - 1) * lie : 0.5;
  const [state, action, reward] = record[step];
  const successor = step + 1 < record.length ? record[step + 1][0] : study.states;
  const chance = Array(items).fill(lie);
  for (const bit of [0, 1]) {
    const share = bit ? (reward + 1) / 2 : (1 - reward) / 2;
    chance[numberOf(round.questions[step], state * study.actions + action, successor, bit)] += share * (truth - lie);
  }
  return chance;
}

/** The p-value of reports that are sent by the law of one epsilon, under the law of another. */
export async function pValue(response, stated, sent, reports) {
  const { study, round, record } = await setting(response, sent);
  const twin = await setting(response, stated);
  const tape = new Tape(inPieces());
  const counts = round.laws.map(({ items }) => new Float64Array(items));
  const asked = new Float64Array(3);
  for (let i = 0; i < reports; i++) {
    const report = reportOf(study, round, pick(study, round, tape), record, tape);
    const step = report.steps[0];
    asked[step]++;
    if (response === "kary") counts[step][report.items[0]]++;
    else for (let bit = 0; bit < counts[step].length; bit++) counts[step][bit] += report.bits[0].charCodeAt(bit) - 48;
  }
  let statistic = 0;
  let freedom = 2;
  for (const seen of asked) statistic += (seen - reports / 3) ** 2 / (reports / 3);
  counts.forEach((seen, step) => {
    lawAt(twin, step, response).forEach((chance, item) => {
      const mean = asked[step] * chance;
      statistic += (seen[item] - mean) ** 2 / (response === "kary" ? mean : mean * (1 - chance));
    });
    freedom += seen.length - Number(response === "kary");
  });
  return chiSquareTail(statistic, freedom);
}

/** The system's entropy, asked for in large pieces, because a call costs more than the bytes. */
function inPieces() {
  let [piece, at] = [new Uint8Array(), 0];
  return (count) => {
    if (at + count > piece.length) [piece, at] = [systemEntropy(65536), 0];
    at += count;
    return piece.subarray(at - count, at);
  };
}

/** P(X > x) for a chi-square variable: the regularised incomplete gamma function, by series or continued fraction. */
export function chiSquareTail(x, freedom) {
  const [a, t] = [freedom / 2, x / 2];
  const scale = Math.exp(a * Math.log(t) - t - logGamma(a));
  if (t < a + 1) {
    let [term, sum] = [1 / a, 1 / a];
    for (let n = a + 1; term > sum * 1e-17; n++) sum += term *= t / n;
    return 1 - scale * sum;
  }
  let fraction = 0;
  for (let n = 1000; n >= 1; n--) fraction = (n * (n - a)) / (t + 2 * n + 1 - a - fraction);
  return scale / (t + 1 - a - fraction);
}

/** log of the gamma function: Stirling's series after raising the argument. */
function logGamma(x) {
  let less = 0;
  for (; x < 12; x++) less += Math.log(x);
  const series = 1 / (12 * x) - 1 / (360 * x ** 3) + 1 / (1260 * x ** 5);
  return (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + series - less;
}
