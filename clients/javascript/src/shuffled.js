/**
 * What is different in shuffled studies, loaded by them alone: the kind of a report, the law of a round, which must keep
 * what is left if both parties act together, the messages that leave, and the shuffler that they go to. The device tells the shuffler what it was asked for and by which laws it
 * has randomised it (`terms`), and the shuffler takes only what it has certified for the batch.
 */
import { countersOf, messagesOf } from "./counters.js";
import { Refused } from "./errors.js";
import { WHOLE } from "./exact.js";
import { checkLaw } from "./laws.js";
import { messageOf, numbered } from "./one-item.js";
import { sealed } from "./sealing.js";
import { perStep } from "./study.js";
import { canonical, digest, field, finite, whole } from "./words.js";

/** @typedef {import("./study.js").Study} Study */
/** @typedef {import("./reports.js").Round} Round */
/** @typedef {import("./transport.js").Asks} Asks */

const LAYOUTS = ["joint", "tables", "two-tables"];

/** What a report is: one message for each counter, or one in all; `steps` are the answers that a record can move. @param {import("./words.js").Content} report @param {Omit<Study, "kind">} study */
export async function readKind(report, study) {
  if (!study.alone) {
    throw new Refused(
      "this declaration does not say what is left if coordinator and shuffler act together (local_epsilon in [shuffle]): " +
        "nothing is sent; ask whoever runs the study for one that does",
    );
  }
  const groups = whole(report, "groups", 1, study.horizon);
  if (groups !== 1 && groups !== study.horizon) {
    throw new Refused("the service asks for another number of groups than one, or one for each step: nothing is sent");
  }
  const stated = await digest(report);
  if (report.kind === "one-item") return { steps: 1, groups, stated };
  const layout = field(report, "layout", "text");
  if (!LAYOUTS.includes(layout)) {
    throw new Refused(`this client answers bits of a layout of ${LAYOUTS.join(" or ")}, and is asked for another: nothing is sent`);
  }
  const firstVisits = field(report, "first_visits", "flag");
  return { steps: mostMoved(layout, groups, firstVisits, study), layout, groups, firstVisits, stated };
}

/** How many counters two records can set differently, at most: `most_moved` of the Python client says why. @param {string} layout @param {number} groups @param {boolean} firstVisits @param {Omit<Study, "kind">} study */
export function mostMoved(layout, groups, firstVisits, { states, actions, horizon: H }) {
  const rows = states * actions;
  const visits = firstVisits ? Math.min(H, rows) : H;
  const followed = layout === "joint" ? 0 : Math.min(visits, H - 1);
  if (layout !== "tables") return 2 * (visits + followed);
  if (!firstVisits || groups > 1) return 2 * (2 * visits + followed);
  const visited = Math.min(2 * H, rows);
  return 3 * visited - Math.max(0, visited - 2 * (H - 1));
}

/** The law of a round, which must be one for all numbers that a message can hold. @param {import("./words.js").Content} answer @param {Study} study @param {Round} round @returns {Promise<Round>} */
export async function readShuffled(answer, study, round) {
  const bits = study.kind.name === "answered-bits";
  const numbers = bits ? countersOf(study, round.policy) : numbered(study, round.policy);
  const mostLies = WHOLE / (bits ? 2n : BigInt(numbers.size || 1));
  const users = whole(answer, "wanted", 1, Number.MAX_SAFE_INTEGER);
  const [law, ...others] = round.laws;
  if (others.length || law?.items !== numbers.size || law.threshold < 1n || law.threshold > mostLies) {
    throw new Refused(
      `the service does not state one law for the ${numbers.size} numbers of this round: nothing is sent, because ` +
        "messages would be misread",
    );
  }
  if (study.alone !== "none") {
    const epsilon = finite(study.alone, "the field 'local_epsilon'");
    checkLaw(law, bits ? "unary" : "kary", perStep({ ...study, epsilon }));
  }
  return { ...round, numbers, terms: await digest({ laws: answer.laws, users, report: study.kind.stated }) };
}

/** The messages of a record, before they are sealed; of every record of a round as many. @param {Study} study @param {Round} round @param {[number, number, number][]} record @param {import("./exact.js").Tape} tape */
export function shuffledMessages(study, { numbers, laws }, record, tape) {
  if (numbers && "cells" in numbers) return [messageOf(study, numbers, laws[0].threshold, record, tape)];
  return messagesOf(study, /** @type {import("./counters.js").Counters} */ (numbers), laws[0].threshold, record, tape);
}

/** What leaves the device: what was agreed to, and messages that only the coordinator can read. @param {import("./device.js").Episode} episode @param {import("./exact.js").Tape} tape @param {import("./sealing.js").Seal} [seal] */
export async function sealedBody({ id, study, round, head, record }, tape, seal) {
  const messages = shuffledMessages(study, round, record, tape);
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
