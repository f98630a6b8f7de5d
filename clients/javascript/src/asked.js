/**
 * One question (local studies, kind "asked-first-visit"): about the first visit of one state and action.
 *
 * A *row* is r = state * A + action. Question 2 r asks which state followed the first visit of row r, question 2 r + 1
 * which reward bit it brought. The first has the answers 0 ... S - 1 and S, the second 0, 1 and 2; the last of them is
 * "none": the record never visits the row, or ends with that visit (first question).
 *
 * The question, before the episode begins: with the weights w of the round, z is below(sum of w), the row is the first
 * one with w_0 + ... + w_r > z, and below(2) says which of its two questions it is. A row with a weight must be one that
 * the policy can play, where the study masks the others. The answer: if the question is about a reward bit and the row
 * was visited, the reward becomes a bit; then the answer is randomised by the law of the question, one of three about
 * bits; one of S + 1, or a bit for each of them ("unary"), about successors.
 */
import { Refused } from "./errors.js";
import { rewardFraction } from "./exact.js";
import { checkLaw } from "./laws.js";
import { reaches } from "./policy.js";
import { perStep } from "./study.js";
import { field } from "./words.js";

/** @typedef {import("./study.js").Study} Study */
/** @typedef {import("./laws.js").Law} Law */
/** @typedef {[number, number, number][]} Record_ */

/**
 * @typedef {object} Asked what a device agreed to in a round that asks
 * @property {(tape: import("./exact.js").Tape) => number} draw the question of an episode
 * @property {(question: number, record: Record_, tape: import("./exact.js").Tape) => {[name: string]: any}} answer its report
 */

const BITS = 3; // zero, one, none
const HEAVIEST = 2 ** 30; // a weight

/** A round that asks; refused unless its laws and weights keep what was agreed to. @param {import("./words.js").Content} answer @param {Study} study @param {import("./policy.js").Policy} policy @param {Law[]} laws @returns {Asked} */
export function readAsked(answer, study, policy, laws) {
  checkLaws(laws, study);
  const upTo = readWeights(answer, study, policy);
  return {
    draw: (tape) => drawQuestion(upTo, tape),
    answer: (question, record, tape) => answerOf(study, laws, question, record, tape),
  };
}

/** Refuse other laws than two, of successors and of bits, that keep what was agreed to. @param {Law[]} laws @param {Study} study */
export function checkLaws(laws, study) {
  const [successors, bits] = laws;
  if (laws.length !== 2 || successors.items !== study.states + 1 || bits.items !== BITS) {
    throw new Refused(
      `the service does not state two laws, of ${study.states + 1} and of ${BITS} answers: nothing is sent, it would be misread`,
    );
  }
  checkLaw(successors, study.kind.response, perStep(study));
  checkLaw(bits, "kary", perStep(study));
}

/** The weights of rows in an answer of the service, added up from the first row on. @param {import("./words.js").Content} answer @param {Study} study @param {import("./policy.js").Policy} policy @returns {number[]} */
export function readWeights(answer, study, policy) {
  const weights = field(answer, "questions", "list");
  const rows = study.states * study.actions;
  const isWeight = (/** @type {any} */ weight) => Number.isSafeInteger(weight) && weight >= 0 && weight <= HEAVIEST;
  if (weights.length !== rows || !weights.every(isWeight) || !weights.some(Boolean)) {
    throw new Refused(`the weights of questions must be ${rows} whole numbers from 0 to ${HEAVIEST}, and not all of them 0`);
  }
  let sum = 0;
  return weights.map((/** @type {number} */ weight, /** @type {number} */ row) => {
    const [state, action] = [Math.floor(row / study.actions), row % study.actions];
    if (weight && study.kind.masked && !reaches(study, policy, state, action)) {
      throw new Refused(
        "the service asks about a state and action that the policy of this round cannot play: nothing is sent, it would be misread",
      );
    }
    return (sum += weight);
  });
}

/** The question of an episode, drawn before it begins. @param {number[]} upTo @param {import("./exact.js").Tape} tape */
export function drawQuestion(upTo, tape) {
  const z = tape.under(upTo[upTo.length - 1]);
  const row = upTo.findIndex((sum) => sum > z);
  return 2 * row + tape.under(2);
}

/** The report of a record; that of the empty record answers "none". @param {Study} study @param {Law[]} laws @param {number} question @param {Record_} record @param {import("./exact.js").Tape} tape @returns {{[name: string]: any}} */
export function answerOf(study, laws, question, record, tape) {
  const about = question % 2;
  const { items, threshold } = laws[about];
  const h = record.findIndex(([state, action]) => state * study.actions + action === (question - about) / 2);
  let answer = items - 1;
  if (about && h >= 0) answer = Number(tape.chance(rewardFraction(record[h][2], ...study.rewards)));
  if (!about && h >= 0 && h + 1 < record.length) answer = record[h + 1][0];
  if (!about && study.kind.response === "unary") {
    return { kind: "answer", question, bits: tape.bits(answer, items, threshold) };
  }
  return { kind: "answer", question, answer: tape.item(answer, items, threshold) };
}
