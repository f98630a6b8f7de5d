/**
 * What can be said in a round, and what a record says of it: steps 3 and 6 of the protocol (docs/messages.md), where
 * items and counters, and their order, are stated for every kind of report.
 *
 * A row is (group, state, action), with a group for each step or one for all; a cell is (row, successor, reward bit);
 * successor S means that the record ends with this step. A question has the cells that can occur, in this order, and
 * "ended" after them where records may end early. What shuffled studies make of that stands in shuffled.js, and what is
 * asked about first visits in asked.js.
 */
import { rewardFraction } from "./exact.js";
import { plays } from "./policy.js";

/** @typedef {import("./study.js").Study} Study */
/** @typedef {import("./exact.js").Tape} Tape */
/** @typedef {[number, number, number][]} Record_ */
/** @typedef {{rows: Map<number, [number, number, number]>, size: number}} Question by the number of a row: where it begins, its first successor, and the one after its last */

/** Whether an episode can be in a state at a step and play an action there. @param {Study} study @param {import("./policy.js").Policy} policy @param {number} h @param {number} state @param {number} action */
export function reaches({ start }, policy, h, state, action) {
  return (h > 0 || start === null || state === start) && plays(policy, h, state, action);
}

/** The question about the steps of some groups. @param {Study} study @param {number[][]} groups @param {(h: number, state: number, action: number) => boolean} can whether a row can occur at a step @param {number} last the step that has no successor @returns {Question} */
export function questionOf({ states: S, actions: A, horizon, earlyEnd }, groups, can, last = horizon - 1) {
  const rows = new Map();
  let size = 0;
  let row = 0;
  for (const steps of groups) {
    for (let pair = 0; pair < S * A; pair++, row++) {
      const at = steps.filter((h) => can(h, Math.floor(pair / A), pair % A));
      if (!at.length) continue;
      const from = at[0] === last ? S : 0;
      const to = S + Number(earlyEnd || at.includes(last));
      rows.set(row, [size, from, to]);
      size += 2 * (to - from);
    }
  }
  return { rows, size: size + Number(earlyEnd) };
}

/** The number of a cell; null for one that cannot occur. @param {Question} question @param {number} row @param {number} successor @param {number} bit */
export function numberOf({ rows }, row, successor, bit) {
  const [first, from, to] = rows.get(row) ?? [0, 0, 0];
  return from <= successor && successor < to ? first + 2 * (successor - from) + bit : null;
}

/** The randomised item of a step; an even one if the record has none: it has ended, or its cell cannot occur. @param {Study} study @param {Question} question @param {import("./laws.js").Law} law @param {number} group @param {number} h @param {Record_} record @param {Tape} tape @returns {any} */
export function answerTo(study, question, { items, threshold }, group, h, record, tape) {
  const { states: S, actions: A, earlyEnd, kind } = study;
  let item = earlyEnd ? items - 1 : null;
  if (h < record.length) {
    const [state, action, reward] = record[h];
    const successor = record[h + 1]?.[0] ?? S;
    item = numberOf(question, (group * S + state) * A + action, successor, bitOf(study, reward, tape));
  }
  return tape[kind.response === "unary" ? "bits" : "item"](item ?? tape.under(items), items, threshold);
}

/** A reward as a bit, one with probability (reward - low) / (high - low). @param {Study} study @param {number} reward @param {Tape} tape */
export function bitOf(study, reward, tape) {
  return Number(tape.chance(rewardFraction(reward, ...study.rewards)));
}
