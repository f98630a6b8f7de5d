/**
 * A record in, the report of it out. A record is a list of [state, action, reward] from the first step on. The numbers
 * are those of the protocol's steps (docs/messages.md); what can be said, and what a record says, stands in questions.js.
 *
 * 3. Items: the service must count as many as the device; its laws must keep what was agreed to (4, laws.js).
 * 5. The question, before the episode begins: m of H steps; or the row whose weight, added to those before it, is the
 *    first above below(sum of weights), and below(2) says which of its two questions it is. Of one item the step is
 *    below(H), drawn with the item and told to nobody.
 * 6. The item: the reward of the step becomes a bit. Where a record has no item, it is below(k).
 * 7. The answer: one item of k, or a bit for each ("unary"; a question about a reward bit is always answered by one of
 *    three). Answered bits, and how messages are sealed (8): shuffled.js.
 *
 * Central studies (kind "record") send all H steps as [state, action, reward bit], and [-1, -1, -1] after the end. The
 * empty record goes through the same steps. Random numbers are read from the tape in exactly this order, so that every
 * client gives the same report for the same bytes.
 */
import { Refused } from "./errors.js";
import { checkLaw, readLaw } from "./laws.js";
import { readPolicy } from "./policy.js";
import { answerTo, bitOf, questionOf, reaches } from "./questions.js";
import { perStep } from "./study.js";
import { field, whole } from "./words.js";

/** @typedef {import("./study.js").Study} Study */
/** @typedef {import("./exact.js").Tape} Tape */
/** @typedef {import("./questions.js").Record_} Record_ */
/**
 * @typedef {object} Round what a device agreed to for one episode
 * @property {number} number @property {import("./policy.js").Policy} policy
 * @property {import("./laws.js").Law[]} laws @property {import("./questions.js").Question[]} questions
 * @property {string} [terms] shuffled: the hash of laws, size of the batch and kind of report, which the shuffler must have certified
 * @property {import("./asked.js").Asked} [asked] asked about first visits: how a question is drawn, and how it is answered
 */

/** The round in an answer of the service; refused unless its laws keep what was agreed to. @param {import("./words.js").Content} answer @param {Study} study @returns {Promise<Round>} */
export async function readRound(answer, study) {
  if (field(answer, "study", "text") !== study.hash) throw new Refused("the service sent the policy of another study");
  const policy = readPolicy(field(answer, "policy", "object"), study);
  const number = whole(answer, "round", 0, Number.MAX_SAFE_INTEGER);
  /** @type {Round} */
  const round = { number, policy, laws: [], questions: [] };
  if (study.kind.name === "record") return round;
  round.laws = field(answer, "laws", "list").map(readLaw);
  if (study.kind.name === "asked-first-visit") return (await import("./asked.js")).readAsked(answer, study, round);
  if (study.model === "shuffle") return (await import("./shuffled.js")).readShuffled(answer, study, round);
  if (round.laws.length !== study.horizon) {
    throw new Refused(`the service states ${round.laws.length} laws for ${study.horizon} steps`);
  }
  round.questions = round.laws.map((law, h) => {
    const own = questionOf(study, [[h]], (...row) => !study.kind.masked || reaches(study, policy, ...row));
    if (law.items !== own.size) {
      throw new Refused(
        `the service counts ${law.items} items at step ${h} and this client ${own.size}: nothing is sent, it would be misread`,
      );
    }
    checkLaw(law, study.kind.response, perStep(study));
    return own;
  });
  return round;
}

/** The steps that a report is about, or its question, drawn before the episode begins. @param {Study} study @param {Round} round @param {Tape} tape */
export function pick(study, round, tape) {
  if (round.asked) return [round.asked.draw(tape)];
  return round.terms ? [] : tape.pick(study.horizon, study.kind.steps); // of a record none are asked about
}

/** The report of a record; the empty record is `[]`. @param {Study} study @param {Round} round @param {number[]} steps @param {Record_} record @param {Tape} tape @returns {{[name: string]: any}} */
export function reportOf(study, round, steps, record, tape) {
  if (study.kind.name === "record") {
    const known = record.map(([state, action, reward]) => [state, action, bitOf(study, reward, tape)]);
    return { kind: "record", steps: [...known, ...Array(study.horizon - known.length).fill([-1, -1, -1])] };
  }
  if (round.asked) return round.asked.answer(steps[0], record, tape);
  const kind = study.kind.response === "kary" ? "items" : "bits";
  const sent = steps.map((h) => answerTo(study, round.questions[h], round.laws[h], 0, h, record, tape));
  return { kind, steps, [kind]: sent };
}
