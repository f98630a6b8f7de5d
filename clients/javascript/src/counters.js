/**
 * Answered bits (shuffled studies): which counters there are, which of them a record sets, and the messages of it.
 *
 * A row is (group, state, action); there is one group for all steps, or one for each. Rows come in this order, and only
 * those that the public policy can play where the study masks the others. The counters of layout "joint": for every row,
 * for every successor (S: the record ends with this step), a reward bit of 0 and of 1. Those of "tables": all rows
 * (visits); for every successor all rows that can have one (transitions); all rows (reward bits). Those of "two-tables":
 * for every successor all rows that can have one (transitions); for every row a reward bit of 0 and of 1. The last of
 * separate steps has no successor but the end. A record sets, at each of its steps (`firstVisits`: at the first one at
 * each state and action), the joint counter, or visit, transition and a reward bit of 1, or transition and reward bit.
 *
 * The messages: for every step of the record in order the reward becomes a bit; then for counter c = 0, 1, ... a number z
 * is read, the answer is the true bit, or the other one if z is below the threshold, and the message says 2 c + answer.
 */
import { rewardFraction } from "./exact.js";
import { plays } from "./policy.js";

/** @typedef {import("./study.js").Study} Study */
/** @typedef {{rows: Map<number, number>, followed: Map<number, number>, starts: Map<number, number>, size: number}} Counters by the number of a row */

/** The counters of a round with this policy. @param {Study} study @param {import("./policy.js").Policy} policy @returns {Counters} */
export function countersOf(study, policy) {
  const { states: S, actions: A, horizon, kind } = study;
  const last = kind.groups > 1 || horizon === 1 ? kind.groups - 1 : -1;
  const [rows, followed, starts] = [new Map(), new Map(), new Map()];
  let size = 0;
  for (let row = 0; row < kind.groups * S * A; row++) {
    if (kind.masked && !played(study, policy, row)) continue;
    rows.set(row, rows.size);
    starts.set(row, size);
    if (groupOf(study, row) !== last) followed.set(row, followed.size);
    size += followed.has(row) ? 2 * (S + 1) : 2;
  }
  if (kind.layout !== "joint") size = 2 * rows.size + S * followed.size;
  return { rows, followed, starts, size };
}

/** What a device sends of a record, before it is sealed; of the empty record as many messages as of any other. @param {Study} study @param {Counters} counters @param {bigint} threshold @param {[number, number, number][]} record @param {import("./exact.js").Tape} tape */
export function messagesOf(study, counters, threshold, record, tape) {
  const bits = record.map(([, , reward]) => Number(tape.chance(rewardFraction(reward, ...study.rewards))));
  const set = setBy(study, counters, record, bits);
  return tape.lies(counters.size, threshold).map((lie, c) => 2 * c + Number(set.has(c) !== lie));
}

/** The counters that a record sets. @param {Study} study @param {Counters} counters @param {[number, number, number][]} record @param {number[]} bits */
function setBy(study, { rows, followed, starts }, record, bits) {
  const { states: S, actions: A, kind } = study;
  const [found, seen] = [new Set(), new Set()];
  record.forEach(([state, action], h) => {
    const pair = state * A + action;
    if (kind.firstVisits && seen.has(pair)) return;
    seen.add(pair);
    const row = kind.groups > 1 ? h * S * A + pair : pair;
    const place = rows.get(row);
    if (place === undefined) return;
    const next = h + 1 < record.length ? record[h + 1][0] : null;
    if (kind.layout === "joint") {
      found.add(/** @type {number} */ (starts.get(row)) + 2 * (followed.has(row) ? (next ?? S) : 0) + bits[h]);
      return;
    }
    const [step, visits] = [followed.get(row), kind.layout === "tables" ? rows.size : 0];
    if (next !== null && step !== undefined) found.add(visits + next * followed.size + step);
    if (kind.layout === "two-tables") {
      found.add(S * followed.size + 2 * place + bits[h]);
      return;
    }
    found.add(place);
    if (bits[h]) found.add(rows.size + S * followed.size + place);
  });
  return found;
}

/** @param {Study} study @param {number} row */
function groupOf({ states, actions }, row) {
  return Math.floor(row / (states * actions));
}

/** Whether the public policy can play a row. @param {Study} study @param {import("./policy.js").Policy} policy @param {number} row */
function played(study, policy, row) {
  const { states, actions, horizon, start, kind } = study;
  const [state, action] = [Math.floor(row / actions) % states, row % actions];
  const group = groupOf(study, row);
  for (let h = kind.groups > 1 ? group : 0; h < (kind.groups > 1 ? group + 1 : horizon); h++) {
    if (plays(policy, h, state, action) && (h > 0 || start === null || state === start)) return true;
  }
  return false;
}
