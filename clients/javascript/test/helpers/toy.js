/** A small study as a service would serve it: declarations, policies, laws and signed heads made by hand for tests. */
import { generateKeyPairSync, sign } from "node:crypto";
import { keeps } from "../../src/laws.js";
import { playable } from "../../src/asked.js";
import { readPolicy } from "../../src/policy.js";
import { questionOf, reaches } from "../../src/questions.js";
import { perStep, readStudy } from "../../src/study.js";
import { Float, canonical, digest, parse } from "../../src/words.js";

export const WHOLE = 1n << 62n;

/** Data as the parser gives it: objects without prototype, decimals as Float. */
export const parsed = (content) => parse(canonical(content));
export const floats = (...values) => values.map((value) => new Float(value));

export function declaration(changes = {}) {
  const { states = 3, actions = 2, horizon = 4, start = 0, rewards = [0, 1], earlyEnd = false } = changes;
  const { model = "local", epsilon = 2, cap = 1, window = "1h", key = "0".repeat(64) } = changes;
  const problem = { states, actions, horizon, homogeneous: true, early_end: earlyEnd, rewards: floats(...rewards) };
  return {
    format: 1, name: "toy", title: "A toy", about: "",
    problem: start === null ? problem : { ...problem, start },
    privacy: { model, epsilon: new Float(epsilon), delta: new Float(0), recipe: "auto", options: {} },
    users: { number: 100, reports_per_user: cap, tokens: false },
    learner: { name: "ucbvi", options: {}, seed: 1 },
    reporting: { window },
    keys: { signing: key, ...(model === "shuffle" ? { sealing: "ab".repeat(32) } : {}) },
    ...(model === "shuffle" ? { shuffle: { address: changes.address ?? "", local_epsilon: changes.alone ?? "none" } } : {}),
  };
}

export function studyAnswer(declared, response = "kary", steps = 1, masked = true, asked = false) {
  const sampled = { kind: "sampled-items", steps, response, masked, early_end: declared.problem.early_end };
  const local = asked ? { kind: "asked-first-visit", response, masked } : sampled;
  const report = declared.privacy.model === "local" ? local : { kind: "record" };
  return parsed({ study: declared, hash: "", promise: {}, report });
}

export const readToy = async (answer) => readStudy(answer, await digest(answer.study));

/** The smallest threshold that keeps this part of epsilon. */
export function threshold(items, response, most) {
  let [low, high] = [0n, response === "kary" ? WHOLE / BigInt(items) : WHOLE / 2n];
  while (high - low > 1n) {
    const middle = (low + high) / 2n;
    if (keeps({ items, threshold: middle }, response, most)) high = middle;
    else low = middle;
  }
  return high;
}

export function lawsOf(study, policy, most = perStep(study)) {
  const known = readPolicy(parsed(policy), study);
  return Array.from({ length: study.horizon }, (_, h) => {
    const can = (...row) => !study.kind.masked || reaches(study, known, ...row);
    const items = questionOf(study, [[h]], can).size;
    return { items, lie: String(threshold(items, study.kind.response, most)) };
  });
}

/** The laws of successors and of bits, and a weight for each row that an episode can play. */
export function askedOf(study, policy, most = perStep(study)) {
  const known = readPolicy(parsed(policy), study);
  const sizes = [[study.states + 1, study.kind.response], [3, "kary"]];
  const laws = sizes.map(([items, response]) => ({ items, lie: String(threshold(items, response, most)) }));
  const rows = Array.from({ length: study.states * study.actions }, (_, row) => row);
  const may = (row) => !study.kind.masked || playable(study, known, row);
  return { laws, questions: rows.map((row) => (may(row) ? 1 + (row % 3) : 0)) };
}

/** A service of tests: it answers in memory what a coordinator would, and remembers what was sent to it. */
export class Stub {
  static async make({ response = "kary", steps = 1, masked = true, asked = false, ...options } = {}) {
    const stub = new Stub();
    const { publicKey, privateKey } = generateKeyPairSync("ed25519");
    stub.privateKey = privateKey;
    const key = Buffer.from(publicKey.export({ format: "jwk" }).x, "base64url").toString("hex");
    stub.answer = studyAnswer(declaration({ key, ...options }), response, steps, masked, asked);
    if (options.model !== "shuffle") stub.study = await readToy(stub.answer);
    return stub;
  }

  private = true;
  rounds = [];
  received = new Map();
  bodies = [];
  tokens = [];
  failing = 0; // requests that are lost
  deaf = 0; // answers to reports that are lost
  refuse = null;

  async openRound(policy = null) {
    const { study } = this;
    const number = this.rounds.length;
    const row = Array(study.states).fill(number % study.actions);
    const chosen = policy ?? { kind: "deterministic", actions: Array(study.horizon).fill(row) };
    const previous = number ? await digest(this.rounds[number - 1].head) : "";
    const answer = { study: study.hash, round: number, policy: chosen, head: await this.head(chosen, number, previous) };
    if (study.kind.name === "sampled-items") answer.laws = lawsOf(study, chosen);
    if (study.kind.name === "asked-first-visit") Object.assign(answer, askedOf(study, chosen));
    this.rounds.push(answer);
    return answer;
  }

  async head(policy, round, previous) {
    const body = { study: this.study.hash, round, policy: await digest(policy), previous, released: "", key: this.study.key };
    return { ...body, signature: sign(null, Buffer.from(canonical(body)), this.privateKey).toString("hex") };
  }

  async ask(method, path, body, token) {
    const { Unreachable } = await import("../../src/errors.js");
    if (this.failing-- > 0) throw new Unreachable("lost on the way");
    const answer = this.respond(method, path, body);
    this.tokens.push(token ?? null);
    if (method === "POST" && this.deaf-- > 0) throw new Unreachable("the answer was lost");
    return answer;
  }

  respond(method, path, body) {
    if (path === "/v1/study") return json(200, this.answer);
    if (path === "/v1/policy") return json(200, this.rounds.at(-1));
    if (path.startsWith("/v1/heads?from=")) {
      const first = Number(path.split("=")[1]);
      return json(200, { heads: this.rounds.filter((each) => each.round >= first).map((each) => each.head).slice(0, 3) });
    }
    this.bodies.push(body);
    if (this.refuse) return json(this.refuse, { error: "late", reason: "so it is" });
    const { id, round } = JSON.parse(body);
    if (!this.received.has(id)) this.received.set(id, body);
    if (this.received.get(id) !== body) return json(409, { error: "conflict", reason: "another report has this id" });
    return json(200, { status: "accepted", round });
  }

  get sent() {
    return [...this.received.values()].map((body) => JSON.parse(body));
  }
}

export function json(status, content) {
  return { status, body: new TextEncoder().encode(typeof content === "string" ? content : canonical(content)) };
}
