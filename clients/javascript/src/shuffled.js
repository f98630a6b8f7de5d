/**
 * What is different in shuffled studies, loaded by them alone: the kind of a report, the law of a round, the messages
 * that leave, and the shuffler that they go to. The device tells the shuffler by which laws it has randomised (`terms`),
 * and the shuffler takes those only that it has certified for the batch.
 */
import { countersOf, messagesOf } from "./counters.js";
import { Refused } from "./errors.js";
import { WHOLE } from "./exact.js";
import { sealed } from "./sealing.js";
import { canonical, digest, field, whole } from "./words.js";

/** @typedef {import("./study.js").Study} Study */
/** @typedef {import("./reports.js").Round} Round */
/** @typedef {import("./transport.js").Asks} Asks */

const LAYOUTS = ["joint", "tables"];

/** What a report of answered bits is. @param {import("./words.js").Content} report @param {number} horizon */
export function readBits(report, horizon) {
  const layout = field(report, "layout", "text");
  const groups = whole(report, "groups", 1, horizon);
  if (!LAYOUTS.includes(layout) || (groups !== 1 && groups !== horizon)) {
    throw new Refused(
      `this client answers bits of a layout of ${LAYOUTS.join(" or ")}, of all steps together or of each, and is asked ` +
        "for others: nothing is sent",
    );
  }
  return { layout, groups, firstVisits: field(report, "first_visits", "flag") };
}

/** The law of a round, which must be one for all of its counters. @param {import("./words.js").Content} answer @param {Study} study @param {Round} round @returns {Promise<Round>} */
export async function readShuffled(answer, study, round) {
  const counters = countersOf(study, round.policy);
  const users = whole(answer, "wanted", 1, Number.MAX_SAFE_INTEGER);
  const [law, ...others] = round.laws;
  if (others.length || law?.items !== counters.size || law.threshold < 1n || law.threshold > WHOLE / 2n) {
    throw new Refused(
      `the service does not state one law for the ${counters.size} counters of this round: nothing is sent, because ` +
        "messages would be misread",
    );
  }
  return { ...round, counters, terms: await digest({ laws: answer.laws, users }) };
}

/** What leaves the device: what was agreed to, and messages that only the coordinator can read. @param {import("./device.js").Episode} episode @param {import("./exact.js").Tape} tape @param {import("./sealing.js").Seal} [seal] */
export async function sealedBody({ id, study, round, head, record }, tape, seal) {
  const counters = /** @type {import("./counters.js").Counters} */ (round.counters);
  const messages = messagesOf(study, counters, round.laws[0].threshold, record, tape);
  return canonical({
    study: study.hash, round: round.number, policy: head.policy, head: await digest(head), terms: round.terms, id,
    messages: await sealed(messages, study.sealing, study.hash, round.number, seal),
  });
}

/** Where messages go, which is never the coordinator. @param {Asks | null} given @param {Study} study @param {(url: string) => Asks} connect @returns {Asks} */
export function shufflerOf(given, study, connect) {
  if (!given && !study.shuffler) {
    throw new Refused("this study has a shuffler, and no address of it is known: give Device shuffler: ADDRESS");
  }
  const shuffler = given ?? connect(study.shuffler);
  if (shuffler.private) return shuffler;
  throw new Refused(
    "over http whoever listens on the way to the shuffler could tell the coordinator which messages are yours: take the " +
      "https address",
  );
}
