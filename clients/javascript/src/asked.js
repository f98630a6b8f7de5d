/**
 * One question (kind "asked-first-visit"), loaded by local studies that ask one: steps 3 and 5 to 7 of the protocol
 * (docs/messages.md). Question 2 r asks which state followed the first visit of row r = state * A + action, and 2 r + 1
 * which reward bit it brought; the last answer of each is "none". A row with a weight must be one that the policy can
 * play, where the study masks the others.
 */
import { Refused } from "./errors.js";
import { checkLaw } from "./laws.js";
import { bitOf, reaches } from "./questions.js";
import { perStep } from "./study.js";
import { field } from "./words.js";

/** @typedef {import("./study.js").Study} Study */
/** @typedef {import("./exact.js").Tape} Tape */
/** @typedef {import("./policy.js").Policy} Policy */

/**
 * @typedef {object} Asked what a device agreed to in a round that asks
 * @property {(tape: Tape) => number} draw the question of an episode
 * @property {(question: number, record: import("./questions.js").Record_, tape: Tape) => {[name: string]: any}} answer its report
 */

const HEAVIEST = 2 ** 30; // a weight

/** A round that asks; refused unless its laws and weights keep what was agreed to. @param {import("./words.js").Content} answer @param {Study} study @param {import("./reports.js").Round} round @returns {import("./reports.js").Round} */
export function readAsked(answer, study, round) {
  const { laws, policy } = round;
  const { states, actions, kind } = study;
  if (String(laws.map(({ items }) => items)) !== `${states + 1},3`) {
    throw new Refused(
      `the service does not state two laws, of ${states + 1} and of 3 answers: nothing is sent, it would be misread`,
    );
  }
  laws.forEach((law, about) => checkLaw(law, about ? "kary" : kind.response, perStep(study)));
  const upTo = readWeights(answer, study, policy);
  /** @type {Asked} */
  const asked = {
    draw: (tape) => {
      const z = tape.under(upTo[upTo.length - 1]);
      return 2 * upTo.findIndex((sum) => sum > z) + tape.under(2);
    },
    answer: (question, record, tape) => {
      const { items, threshold } = laws[question % 2];
      const h = record.findIndex(([state, action]) => state * actions + action === question >> 1);
      let item = h < 0 ? items - 1 : (record[h + 1]?.[0] ?? items - 1);
      if (question % 2 && h >= 0) item = bitOf(study, record[h][2], tape);
      if (question % 2 || kind.response === "kary") {
        return { kind: "answer", question, answer: tape.item(item, items, threshold) };
      }
      return { kind: "answer", question, bits: tape.bits(item, items, threshold) };
    },
  };
  return { ...round, asked };
}

/** The weights of rows, added up from the first row on. @param {import("./words.js").Content} answer @param {Study} study @param {Policy} policy @returns {number[]} */
function readWeights(answer, study, policy) {
  const weights = field(answer, "questions", "list");
  const rows = study.states * study.actions;
  const isWeight = (/** @type {any} */ weight) => Number.isSafeInteger(weight) && weight >= 0 && weight <= HEAVIEST;
  if (weights.length !== rows || !weights.every(isWeight) || !weights.some(Boolean)) {
    throw new Refused(`the weights of questions must be ${rows} whole numbers from 0 to ${HEAVIEST}, and not all of them 0`);
  }
  let sum = 0;
  return weights.map((/** @type {number} */ weight, /** @type {number} */ row) => {
    if (weight && study.kind.masked && !playable(study, policy, row)) {
      throw new Refused(
        "the service asks about a state and action that the policy of this round cannot play: nothing is sent, it would be misread",
      );
    }
    return (sum += weight);
  });
}

/** Whether an episode can play this row at any step. @param {Study} study @param {Policy} policy @param {number} row */
export function playable(study, policy, row) {
  const [state, action] = [Math.floor(row / study.actions), row % study.actions];
  return Array.from({ length: study.horizon }).some((_, h) => reaches(study, policy, h, state, action));
}
