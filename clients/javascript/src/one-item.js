/**
 * One message (shuffled studies): an item of one step that the device alone draws, randomised among all items.
 *
 * An item is a cell (state, action, successor or end, reward bit), with its step where there is a group for each. Items
 * are numbered group by group in the order of the table (state, action, successor, bit). A cell is an item if some step
 * of its group allows it: the public policy can take the action there (at step 0 in the start state alone, if there is a
 * public one; any action where the study does not mask), and the successor is S at the last step, and below S before it,
 * or S too where records may end early. There, one further item after all cells says that the record had ended before
 * the step that was drawn.
 *
 * The message: the step is below(H); if the record reaches it, its reward becomes a bit and its cell is the item; if
 * not, the item is "ended" where there is one. Where there is no item, it is below(k). Then one item of k is reported.
 */
import { rewardFraction } from "./exact.js";
import { plays } from "./policy.js";

/** @typedef {import("./study.js").Study} Study */
/** @typedef {{cells: Map<number, number>, size: number}} Numbered by the place of (group, state, action, successor), and how many items there are */

/** The items of a round with this policy. @param {Study} study @param {import("./policy.js").Policy} policy @returns {Numbered} */
export function numbered(study, policy) {
  const { states: S, actions: A, horizon, kind } = study;
  const cells = new Map();
  for (let group = 0; group < kind.groups; group++) {
    const steps = kind.groups === 1 ? [...Array(horizon).keys()] : [group];
    for (let place = group * S * A; place < (group + 1) * S * A; place++) {
      const [state, action] = [Math.floor(place / A) % S, place % A];
      for (let successor = 0; successor <= S; successor++) {
        if (steps.some((step) => allows(study, policy, step, state, action, successor))) {
          cells.set(place * (S + 1) + successor, cells.size);
        }
      }
    }
  }
  return { cells, size: 2 * cells.size + Number(study.earlyEnd) };
}

/** What a device sends of a record, before it is sealed. @param {Study} study @param {Numbered} items @param {bigint} threshold @param {[number, number, number][]} record @param {import("./exact.js").Tape} tape */
export function messageOf(study, items, threshold, record, tape) {
  const item = itemOf(study, items, record, tape.under(study.horizon), tape);
  return tape.item(item ?? tape.under(items.size), items.size, threshold);
}

/** @param {Study} study @param {Numbered} items @param {[number, number, number][]} record @param {number} step @param {import("./exact.js").Tape} tape */
function itemOf(study, { cells, size }, record, step, tape) {
  if (step >= record.length) return study.earlyEnd ? size - 1 : null;
  const { states: S, actions: A, kind } = study;
  const [state, action, reward] = record[step];
  const bit = Number(tape.chance(rewardFraction(reward, ...study.rewards)));
  const successor = step + 1 < record.length ? record[step + 1][0] : S;
  const cell = cells.get((((kind.groups > 1 ? step : 0) * S + state) * A + action) * (S + 1) + successor);
  return cell === undefined ? null : 2 * cell + bit;
}

/** @param {Study} study @param {import("./policy.js").Policy} policy @param {number} step @param {number} state @param {number} action @param {number} successor */
function allows(study, policy, step, state, action, successor) {
  if (step === 0 && study.start !== null && state !== study.start) return false;
  const ends = successor === study.states;
  const follows = step === study.horizon - 1 ? ends : !ends || study.earlyEnd;
  return follows && (!study.kind.masked || plays(policy, step, state, action));
}
