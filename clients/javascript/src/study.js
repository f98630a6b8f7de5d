/**
 * A study as a device knows it: the declaration that a person agreed to, named by its hash, and what a report is.
 *
 * The hash is the study's name, so whoever serves it cannot change a word of it. What a report is (`report` in the
 * answer of the service) is not part of the hash, and need not be: a device reports randomised items or answers only,
 * with laws that it has checked against the declared epsilon (in shuffled studies: `local_epsilon`, what is left if both
 * parties act together), unless the declaration itself says that the coordinator is trusted.
 */
import { Refused } from "./errors.js";
import { exactly } from "./exact.js";
import { digest, field, finite, whole } from "./words.js";

/**
 * @typedef {object} Kind what a report is: the record itself, `steps` items or one answer, randomised by `response`
 * @property {string} name @property {number} steps @property {string} response @property {boolean} masked
 * @property {string} layout @property {number} groups @property {boolean} firstVisits of answered bits (shuffled)
 * @property {string} stated the hash of all of this as the service has stated it (shuffled)
 */
/**
 * @typedef {object} Study
 * @property {string} hash @property {string} title @property {number} states @property {number} actions
 * @property {number} horizon @property {string[] | null} stateLabels @property {string[] | null} actionLabels
 * @property {number | null} start @property {[number, number]} rewards @property {boolean} earlyEnd
 * @property {string} model @property {number} epsilon @property {number} delta @property {number} cap
 * @property {number} window @property {string} key @property {string} sealing the key that messages are sealed to
 * @property {string} shuffler where they are sent, if the declaration says so @property {Kind} kind
 * @property {any} alone as the declaration says it: what is left if both parties act together, or "none" (shuffled)
 */
/** @typedef {import("./words.js").Content} Content */

// By trust model.
const KINDS = ["central record", "local sampled-items", "local asked-first-visit", "shuffle answered-bits", "shuffle one-item"];
const LARGEST = 1 << 22; // cells of a policy or of a step
/** @type {{[unit: string]: number}} */
const UNITS = { s: 1, m: 60, h: 3600, d: 86400 };

/** The study in an answer of the service; refused unless its hash is the one that was agreed to. @param {Content} answer @param {string} agreed @returns {Promise<Study>} */
export async function readStudy(answer, agreed) {
  const declaration = field(answer, "study", "object");
  const found = await digest(declaration);
  if (found !== agreed) {
    throw new Refused(
      `this is not the study that was agreed to: its hash is ${found}, and ${agreed} was expected; read it before you ` +
        "take part",
    );
  }
  const problem = field(declaration, "problem", "object");
  const privacy = field(declaration, "privacy", "object");
  const [states, stateLabels] = named(problem, "states");
  const [actions, actionLabels] = named(problem, "actions");
  const horizon = whole(problem, "horizon", 1, LARGEST);
  if (states * actions * horizon > LARGEST) {
    throw new Refused("this study is too large for a device");
  }
  const keys = field(declaration, "keys", "object");
  const model = field(privacy, "model", "text");
  const shuffled = model === "shuffle";
  const study = {
    hash: found,
    title: field(declaration, "title", "text"),
    states,
    actions,
    horizon,
    stateLabels,
    actionLabels,
    start: startOf(problem, states, stateLabels),
    rewards: rangeOf(problem),
    earlyEnd: field(problem, "early_end", "flag"),
    model,
    epsilon: finite(privacy.epsilon, "the field 'epsilon'"),
    delta: finite(privacy.delta, "the field 'delta'"),
    cap: whole(field(declaration, "users", "object"), "reports_per_user", 1, 1e9),
    window: seconds(field(field(declaration, "reporting", "object"), "window", "text")),
    key: field(keys, "signing", "text"),
    sealing: shuffled ? field(keys, "sealing", "text") : "",
    shuffler: shuffled ? field(field(declaration, "shuffle", "object"), "address", "text") : "",
    alone: declaration.shuffle?.local_epsilon,
  };
  return Object.freeze({ ...study, kind: await kindOf(field(answer, "report", "object"), study) });
}

/** What an item or answer may cost: the agreed epsilon, shared by all reports and their steps, exactly. @param {Pick<Study, "epsilon" | "cap" | "kind">} study @returns {import("./exact.js").Fraction} */
export function perStep({ epsilon, cap, kind }) {
  const [mantissa, power] = exactly(epsilon);
  const parts = BigInt(cap) * BigInt(kind.steps);
  return power < 0n ? [mantissa, parts << -power] : [mantissa << power, parts];
}

/** A time such as "90s", "15m", "1h" or "7d", in seconds. @param {string} text */
export function seconds(text) {
  const match = /^([1-9][0-9]{0,5})([smhd])$/.exec(text);
  if (!match) throw new Refused("a time is a whole number and a unit, as 30m or 1h");
  return Number(match[1]) * UNITS[match[2]];
}

/** @param {Content} report @param {Omit<Study, "kind">} study @returns {Promise<Kind>} */
async function kindOf(report, study) {
  const name = field(report, "kind", "text");
  const kind = { name, steps: 0, response: "", masked: true, layout: "", groups: 1, firstVisits: false, stated: "" };
  if (!KINDS.includes(`${study.model} ${name}`)) {
    throw new Refused(
      `this client does not send reports of kind '${name.slice(0, 30)}' in a study whose model is ` +
        `'${study.model.slice(0, 20)}': nothing is sent`,
    );
  }
  if (study.model === "central") return kind;
  const asked = name === "asked-first-visit";
  if (!asked && field(report, "early_end", "flag") !== study.earlyEnd) {
    throw new Refused("service and declaration differ in whether records may end early: nothing is sent");
  }
  const masked = field(report, "masked", "flag");
  if (study.model === "shuffle") return { ...kind, masked, ...(await (await import("./shuffled.js")).readKind(report, study)) };
  const response = field(report, "response", "text");
  if (response !== "kary" && response !== "unary") {
    throw new Refused("this client answers by kary or unary response, and is asked for another: nothing is sent");
  }
  return { ...kind, masked, response, steps: asked ? 1 : whole(report, "steps", 1, study.horizon) };
}

/** @param {Content} problem @param {string} name @returns {[number, string[] | null]} */
function named(problem, name) {
  const given = problem[name];
  if (Array.isArray(given) && given.length && given.every((label) => typeof label === "string")) {
    if (new Set(given).size < given.length) throw new Refused(`two of the labels of ${name} are the same`);
    return [given.length, given];
  }
  return [whole(problem, name, 1, LARGEST), null];
}

/** @param {Content} problem @param {number} states @param {string[] | null} labels */
function startOf(problem, states, labels) {
  const given = problem.start ?? null;
  if (given === null) return null;
  return labels?.includes(given) ? labels.indexOf(given) : whole(problem, "start", 0, states - 1);
}

/** @param {Content} problem @returns {[number, number]} */
function rangeOf(problem) {
  const ends = field(problem, "rewards", "list").map((/** @type {any} */ end) => finite(end, "an end of the range of rewards"));
  if (ends.length !== 2 || !(ends[0] < ends[1])) {
    throw new Refused("the range of rewards must be two numbers, the smaller first");
  }
  return ends;
}
