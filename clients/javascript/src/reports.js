/**
 * A record in, the report of it out. A record is a list of [state, action, reward] from the first step on.
 *
 * Local studies (kind "asked-first-visit"): see asked.js. Local studies (kind "sampled-items"): the steps that the
 * report is about are drawn before the episode begins. Then, for every one of them in order, the reward becomes a bit,
 * one with probability (reward - low) / (high - low); state, action, successor and bit are an item; the item is
 * randomised by the law of its step. If the record had ended before the step, the item is "ended" where the study
 * declares early ends; elsewhere, and for cells that cannot occur under the policy, it is drawn evenly before it is
 * randomised. Central studies (kind "record"): all H steps as [state, action, reward bit], and [-1, -1, -1] after the
 * end. Shuffled studies (kinds "answered-bits" and "one-item"): see counters.js and one-item.js; messages are sealed
 * one by one (sealing.js). The empty record goes through the same steps. Random numbers are read from the tape in
 * exactly this order, so that every client gives the same report for the same bytes.
 */
import { Refused } from "./errors.js";
import { rewardFraction } from "./exact.js";
import { checkLaw, readLaw } from "./laws.js";
import { itemNumber, itemsOf, readPolicy } from "./policy.js";
import { perStep } from "./study.js";
import { field, whole } from "./words.js";

/** @typedef {import("./study.js").Study} Study */
/** @typedef {import("./exact.js").Tape} Tape */
/** @typedef {[number, number, number][]} Record_ */
/**
 * @typedef {object} Round what a device agreed to for one episode
 * @property {number} number @property {import("./policy.js").Policy} policy
 * @property {import("./laws.js").Law[]} laws @property {import("./policy.js").Items[]} items
 * @property {import("./counters.js").Counters | import("./one-item.js").Numbered} [numbers] shuffled: what numbers in messages mean
 * @property {string} [terms] shuffled: the hash of laws, size of the batch and kind of report, which the shuffler must have certified
 * @property {import("./asked.js").Asked} [asked] asked about first visits: how a question is drawn, and how it is answered
 */

/** The round in an answer of the service; refused unless its laws keep what was agreed to. @param {import("./words.js").Content} answer @param {Study} study @returns {Promise<Round>} */
export async function readRound(answer, study) {
  if (field(answer, "study", "text") !== study.hash) throw new Refused("the service sent the policy of another study");
  const policy = readPolicy(field(answer, "policy", "object"), study);
  const number = whole(answer, "round", 0, Number.MAX_SAFE_INTEGER);
  if (study.kind.name === "record") return { number, policy, laws: [], items: [] };
  const laws = field(answer, "laws", "list").map(readLaw);
  if (study.model === "shuffle") {
    return (await import("./shuffled.js")).readShuffled(answer, study, { number, policy, laws, items: [] });
  }
  if (study.kind.name === "asked-first-visit") {
    return { number, policy, laws, items: [], asked: (await import("./asked.js")).readAsked(answer, study, policy, laws) };
  }
  if (laws.length !== study.horizon) {
    throw new Refused(`the service states ${laws.length} laws for ${study.horizon} steps`);
  }
  const most = perStep(study);
  const items = laws.map((/** @type {import("./laws.js").Law} */ law, /** @type {number} */ h) => {
    const own = itemsOf(study, policy, h);
    if (law.items !== own.size) {
      throw new Refused(
        `the service counts ${law.items} items at step ${h} and this client ${own.size}: nothing is sent, it would be misread`,
      );
    }
    checkLaw(law, study.kind.response, most);
    return own;
  });
  return { number, policy, laws, items };
}

/** The steps that a report is about, or its question, drawn before the episode begins. @param {Study} study @param {Round} round @param {Tape} tape */
export function pick(study, round, tape) {
  if (round.asked) return [round.asked.draw(tape)];
  return study.kind.name === "sampled-items" ? tape.pick(study.horizon, study.kind.steps) : [];
}

/** The report of a record; the empty record is `[]`. @param {Study} study @param {Round} round @param {number[]} steps @param {Record_} record @param {Tape} tape @returns {{[name: string]: any}} */
export function reportOf(study, round, steps, record, tape) {
  if (study.kind.name === "record") {
    const known = record.map(([state, action, reward]) => [state, action, bit(study, reward, tape)]);
    return { kind: "record", steps: [...known, ...Array(study.horizon - known.length).fill([-1, -1, -1])] };
  }
  if (round.asked) return round.asked.answer(steps[0], record, tape);
  const kind = study.kind.response === "kary" ? "items" : "bits";
  const sent = steps.map((h) => {
    const { items, threshold } = round.laws[h];
    const item = itemAt(study, round.items[h], record, h, tape) ?? tape.under(items);
    return kind === "items" ? tape.item(item, items, threshold) : tape.bits(item, items, threshold);
  });
  return { kind, steps, [kind]: sent };
}

/** @param {Study} study @param {import("./policy.js").Items} items @param {Record_} record @param {number} h @param {Tape} tape */
function itemAt(study, items, record, h, tape) {
  if (h >= record.length) return study.earlyEnd ? items.size - 1 : null;
  const [state, action, reward] = record[h];
  const successor = h + 1 < record.length ? record[h + 1][0] : study.states;
  return itemNumber(items, state, action, successor, bit(study, reward, tape));
}

/** @param {Study} study @param {number} reward @param {Tape} tape */
function bit(study, reward, tape) {
  return Number(tape.chance(rewardFraction(reward, ...study.rewards)));
}
