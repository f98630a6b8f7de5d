/**
 * What is different in shuffled studies, loaded by them alone: the kind of a report, the law of a round, which must keep
 * what is left if both parties act together, the messages that leave, and the shuffler that they go to. The device tells the shuffler what it was asked for and by which laws it
 * has randomised it (`terms`), and the shuffler takes only what it has certified for the batch.
 */
import { Refused } from "./errors.js";
import { WHOLE } from "./exact.js";
import { checkLaw } from "./laws.js";
import { answerTo, bitOf, questionOf, reaches } from "./questions.js";
import { sealed } from "./sealing.js";
import { perStep } from "./study.js";
import { canonical, digest, field, finite, whole } from "./words.js";

/** @typedef {import("./study.js").Study} Study */
/** @typedef {import("./reports.js").Round} Round */
/** @typedef {import("./exact.js").Tape} Tape */
/** @typedef {import("./questions.js").Record_} Record_ */
/** @typedef {import("./questions.js").Question} Question */
/** @typedef {import("./transport.js").Asks} Asks */

const BITS = "answered-bits";
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
  const bits = study.kind.name === BITS;
  const question = bits ? countersOf(study, round.policy) : itemsOf(study, round.policy);
  const mostLies = WHOLE / (bits ? 2n : BigInt(question.size || 1));
  const users = whole(answer, "wanted", 1, Number.MAX_SAFE_INTEGER);
  const [law, ...others] = round.laws;
  if (others.length || law?.items !== question.size || law.threshold < 1n || law.threshold > mostLies) {
    throw new Refused(
      `the service does not state one law for the ${question.size} numbers of this round: nothing is sent, because ` +
        "messages would be misread",
    );
  }
  if (study.alone !== "none") {
    const epsilon = finite(study.alone, "the field 'local_epsilon'");
    checkLaw(law, bits ? "unary" : "kary", perStep({ ...study, epsilon }));
  }
  const terms = await digest({ laws: answer.laws, users, report: study.kind.stated });
  return { ...round, questions: [question], terms };
}

/** The messages of a record, before they are sealed; of every record of a round as many. @param {Study} study @param {Round} round @param {Record_} record @param {Tape} tape */
export function shuffledMessages(study, { questions: [question], laws: [law] }, record, tape) {
  if (study.kind.name !== BITS) {
    const h = tape.under(study.horizon);
    return [answerTo(study, question, law, study.kind.groups > 1 ? h : 0, h, record, tape)];
  }
  const bits = record.map(([, , reward]) => bitOf(study, reward, tape));
  const set = setBy(study, question, record, bits);
  return tape.lies(question.size, law.threshold).map((lie, c) => 2 * c + Number(set.has(c) !== lie));
}

/** @param {Study} study */
function groupsOf({ horizon, kind }) {
  const steps = [...Array(horizon).keys()];
  return kind.groups > 1 ? steps.map((h) => [h]) : [steps];
}

/** The items of a round: cells of all steps. @param {Study} study @param {import("./policy.js").Policy} policy */
function itemsOf(study, policy) {
  const { states, actions, horizon, kind } = study;
  const anything = Array(horizon).fill(Array(states).fill(Array(actions).fill(1)));
  const follows = kind.masked ? policy : { actions: null, probabilities: anything };
  return questionOf(study, groupsOf(study), (...row) => reaches(study, follows, ...row));
}

/** The counters of a round: joint cells of its rows, or several tables of them, where a row begins with its place. @param {Study} study @param {import("./policy.js").Policy} policy @returns {Question} */
function countersOf(study, policy) {
  const { states, horizon, kind } = study;
  const can = (/** @type {[number, number, number]} */ ...row) => !kind.masked || reaches(study, policy, ...row);
  const last = kind.groups > 1 || horizon === 1 ? horizon - 1 : -1;
  const { rows, size } = questionOf({ ...study, earlyEnd: true }, groupsOf(study), can, last);
  if (kind.layout === "joint") return { rows, size: size - 1 };
  [...rows.values()].forEach((own, place) => (own[0] = place));
  return { rows, size: 2 * rows.size + states * followedIn(rows).length };
}

/** The rows that can have a successor. @param {Question["rows"]} rows */
function followedIn(rows) {
  return [...rows.keys()].filter((row) => rows.get(row)?.[1] === 0);
}

/** The counters that a record sets. @param {Study} study @param {Question} question @param {Record_} record @param {number[]} bits */
function setBy(study, { rows }, record, bits) {
  const { states: S, actions: A, kind } = study;
  const [found, seen] = [new Set(), new Set()];
  const followed = new Map(followedIn(rows).map((row, place) => [row, place]));
  record.forEach(([state, action], h) => {
    const pair = state * A + action;
    if (kind.firstVisits && seen.has(pair)) return;
    seen.add(pair);
    const row = kind.groups > 1 ? h * S * A + pair : pair;
    const [first, from] = rows.get(row) ?? [-1, 0];
    if (first < 0) return;
    const [step, next] = [followed.get(row), record[h + 1]?.[0] ?? S];
    if (kind.layout === "joint") {
      found.add(first + 2 * (next - from) + bits[h]);
      return;
    }
    const visits = kind.layout === "tables" ? rows.size : 0;
    if (next < S && step !== undefined) found.add(visits + next * followed.size + step);
    if (!visits) {
      found.add(S * followed.size + 2 * first + bits[h]);
      return;
    }
    found.add(first);
    if (bits[h]) found.add(rows.size + S * followed.size + first);
  });
  return found;
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
