/**
 * The policy of a round: which action to take, and which items a report of a step can name.
 *
 * An item of step h is a cell (state, action, successor or end, reward bit) that can occur under the public policy, in
 * the order of the table (S, A, S + 1, 2); successor S means that the record ends with this step. The cells of step h
 * have a pair (state, action) that the policy plays there, at step 0 in the start state if there is a public one (all
 * pairs if `masked` is false); at the last step successor S alone, before it any state, and S too if records may end
 * early. Then one further item, after the cells, says that the record had ended before step h.
 */
import { Refused } from "./errors.js";
import { together } from "./exact.js";
import { Float, field, known } from "./words.js";

/** @typedef {import("./study.js").Study} Study */
/** @typedef {{actions: number[][] | null, probabilities: number[][][] | null}} Policy one of the two */
/** @typedef {{pairs: Map<number, number>, actions: number, first: number, successors: number, size: number}} Items */

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

/** Whether an episode can play this pair at any step; at step 0 in the start state alone, if there is one. @param {Study} study @param {Policy} policy @param {number} state @param {number} action */
export function reaches({ horizon, start }, policy, state, action) {
  for (let step = 0; step < horizon; step++) {
    if ((step > 0 || start === null || state === start) && plays(policy, step, state, action)) return true;
  }
  return false;
}

/** The items of one step under a policy. @param {Study} study @param {Policy} policy @param {number} step @returns {Items} */
export function itemsOf(study, policy, step) {
  const { states, actions, start } = study;
  const pairs = new Map();
  for (let state = 0; state < states; state++) {
    for (let action = 0; action < actions; action++) {
      const reached = step > 0 || start === null || state === start;
      if (!study.kind.masked || (reached && plays(policy, step, state, action))) {
        pairs.set(state * actions + action, pairs.size);
      }
    }
  }
  const last = step === study.horizon - 1;
  const successors = last ? 1 : states + Number(study.earlyEnd);
  const size = 2 * pairs.size * successors + Number(study.earlyEnd);
  return { pairs, actions, first: last ? states : 0, successors, size };
}

/** The item of a cell; null for one that cannot occur under the policy. @param {Items} items @param {number} state @param {number} action @param {number} successor @param {number} bit */
export function itemNumber({ pairs, actions, first, successors }, state, action, successor, bit) {
  const place = pairs.get(state * actions + action);
  if (place === undefined || successor < first || successor >= first + successors) return null;
  return 2 * (place * successors + successor - first) + bit;
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
