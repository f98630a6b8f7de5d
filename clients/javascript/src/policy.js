/** The policy of a round: which action to take, and where it can be taken. */
import { Refused } from "./errors.js";
import { together } from "./exact.js";
import { Float, field, known } from "./words.js";

/** @typedef {import("./study.js").Study} Study */
/** @typedef {{actions: number[][] | null, probabilities: number[][][] | null}} Policy one of the two */

const ROUNDING = 1e-9;

/** Whether the policy can take this action here. @param {Policy} policy @param {number} step @param {number} state @param {number} action */
export function plays(policy, step, state, action) {
  if (policy.actions) return policy.actions[step][state] === action;
  return /** @type {number[][][]} */ (policy.probabilities)[step][state][action] > 0;
}

/** The action to take; where the policy draws it, exactly by its probabilities. @param {Policy} policy @param {number} step @param {number} state @param {import("./exact.js").Tape} tape */
export function draw(policy, step, state, tape) {
  if (policy.actions) return policy.actions[step][state];
  const shares = together(/** @type {number[][][]} */ (policy.probabilities)[step][state]);
  let left = shares.reduce((sum, share) => sum + share, 0n);
  let action = 0;
  while (!shares[action] || (shares[action] !== left && !tape.chance([shares[action], left]))) left -= shares[action++];
  return action;
}

/** A policy as the service states it, for this study. @param {any} content @param {Study} study @returns {Policy} */
export function readPolicy(content, study) {
  const kind = field(content, "kind", "text");
  if (kind === "deterministic") {
    const actions = table(field(content, "actions", "list"), study);
    if (!actions.flat().every((action) => Number.isSafeInteger(action) && action >= 0 && action < study.actions)) {
      throw new Refused("the policy names actions that the study does not have");
    }
    return { actions, probabilities: null };
  }
  if (kind === "stochastic") {
    const rows = table(field(content, "probabilities", "list"), study);
    const probabilities = rows.map((row) => row.map((law) => (Array.isArray(law) ? law.map(plain) : [])));
    if (!probabilities.flat().every((law) => isLaw(law, study.actions))) {
      throw new Refused("the policy holds probabilities that are none");
    }
    return { actions: null, probabilities };
  }
  throw new Refused(`this client does not follow policies of kind '${kind.slice(0, 30)}'`);
}

/** @param {any[]} rows @param {Study} study @returns {any[][]} */
function table(rows, { horizon, states }) {
  if (rows.length !== horizon || rows.some((row) => known(row, "list", "a row").length !== states)) {
    throw new Refused(`the policy must have ${horizon} steps and ${states} states in each`);
  }
  return rows;
}

/** @param {any} value */
function plain(value) {
  return value instanceof Float ? value.value : value;
}

/** @param {any[]} law @param {number} actions */
function isLaw(law, actions) {
  const numbers = law.length === actions && law.every((p) => typeof p === "number" && p >= 0 && p <= 1);
  return numbers && Math.abs(law.reduce((sum, p) => sum + p, 0) - 1) <= ROUNDING;
}
