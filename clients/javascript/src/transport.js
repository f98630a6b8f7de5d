/**
 * Requests to the service, and its answers, studied once.
 *
 * `Connection` speaks HTTP through fetch. `Service` is the service as a device knows it: the study that was agreed to,
 * the policy of the round, heads, and what is sent. Answers are checked before anything is done with them.
 */
import { Refused, Rejected, Unreachable } from "./errors.js";
import { checkHead, checkPolicy } from "./heads.js";
import { readRound } from "./reports.js";
import { readStudy } from "./study.js";
import { canonical, field, known, read } from "./words.js";

/** @typedef {{status: number, body: Uint8Array}} Answer */
/** @typedef {{private: boolean, ask(method: string, path: string, body?: string, token?: string | null): Promise<Answer>}} Asks */
/** @typedef {import("./words.js").Content} Content */

const LARGEST = 1 << 26; // bytes of an answer that are read
const MILLISECONDS = 30000;
const FINAL = [400, 403, 404, 409, 410, 413]; // statuses by which the service refuses for good
const HERE = ["localhost", "127.0.0.1", "[::1]"];

/** HTTP requests to one address. @implements {Asks} */
export class Connection {
  /** @param {string} url */
  constructor(url) {
    let parts;
    try {
      parts = new URL(url);
    } catch {
      throw noAddress(url);
    }
    if (!/^https?:$/.test(parts.protocol) || !parts.hostname || /[?#@]/.test(url)) throw noAddress(url);
    this.base = parts.href.replace(/\/+$/, "");
    this.private = parts.protocol === "https:" || HERE.includes(parts.hostname);
  }

  /** One request. @param {string} method @param {string} path @param {string} [body] @param {string | null} [token] @returns {Promise<Answer>} */
  async ask(method, path, body, token) {
    /** @type {{[name: string]: string}} */
    const headers = body === undefined ? {} : { "Content-Type": "application/json" };
    if (token) headers.Authorization = `Bearer ${token}`;
    try {
      const answer = await fetch(this.base + path, {
        method, body, headers, redirect: "manual", cache: "no-store", credentials: "omit", referrerPolicy: "no-referrer",
        signal: AbortSignal.timeout(MILLISECONDS),
      });
      return { status: answer.status, body: await content(answer) };
    } catch (error) {
      if (error instanceof Refused) throw error;
      const { cause, name } = /** @type {any} */ (error);
      throw new Unreachable(`the service cannot be reached (${cause?.code ?? name}): try again later, nothing is lost`);
    }
  }
}

/** The service of one study, as a device sees it. */
export class Service {
  /** @type {{text: string, seen: Promise<[import("./reports.js").Round, Content]>} | null} */
  #last = null;
  /** @type {Promise<import("./study.js").Study> | null} */
  #study = null;

  /** @param {Asks} connection @param {string} agreed @param {import("./heads.js").Verify | null} verify null: signatures are not checked @param {Asks | null} shuffler @param {string | null} token */
  constructor(connection, agreed, verify, shuffler, token) {
    this.token = token;
    this.shuffler = shuffler;
    this.connection = connection;
    this.agreed = agreed;
    this.verify = verify;
  }

  /** The study that was agreed to, fetched and checked once. */
  study() {
    this.#study ??= this.#agreedStudy().catch((error) => {
      this.#study = null;
      throw error;
    });
    return this.#study;
  }

  /** The policy of the round with its head, both checked; checked again only if something has changed. @returns {Promise<[import("./reports.js").Round, Content]>} */
  async round() {
    const answer = read(await this.#fetch("/v1/policy"));
    const text = canonical(answer);
    if (this.#last?.text !== text) this.#last = { text, seen: this.#understood(answer) };
    try {
      return await this.#last.seen;
    } catch (error) {
      this.#last = null;
      throw error;
    }
  }

  /** Refuse a head that is not one of this study. @param {Content} head */
  async checkHead(head) {
    await checkHead(head, this.agreed, (await this.study()).key, this.verify);
  }

  /** The chain of heads from a round on, or the first piece of it. @param {number} start @returns {Promise<Content[]>} */
  async heads(start) {
    const listed = field(read(await this.#fetch(`/v1/heads?from=${start}`)), "heads", "list");
    return listed.map((/** @type {any} */ head) => known(head, "object", "a head"));
  }

  /** Send a report, with an invitation where there are any; resolves when the service says that it was accepted. In shuffled studies it goes to the shuffler, and never to the coordinator. @param {string} body */
  async send(body) {
    const study = await this.study();
    let [to, path] = [this.connection, "/v1/reports"];
    if (study.model === "shuffle") {
      const { shufflerOf } = await import("./shuffled.js");
      [to, path] = [shufflerOf(this.shuffler, study, (url) => new Connection(url)), "/v1/sealed"];
    }
    const answer = await to.ask("POST", path, body, this.token);
    let accepted = false;
    const content = checked(answer);
    try {
      accepted = read(content).status === "accepted";
    } catch {
      // not even JSON
    }
    if (!accepted) throw notTheService(answer);
  }

  async #agreedStudy() {
    const study = await readStudy(read(await this.#fetch("/v1/study")), this.agreed);
    if (!this.connection.private && (study.model === "central" || (study.model === "local" && this.token !== null))) {
      throw new Refused("over http anybody on the way could read the record or the invitation: take the https address");
    }
    return study;
  }

  /** @param {Content} answer @returns {Promise<[import("./reports.js").Round, Content]>} */
  async #understood(answer) {
    const head = field(answer, "head", "object");
    const round = await readRound(answer, await this.study());
    await this.checkHead(head);
    await checkPolicy(head, answer.policy, round.number);
    return [round, head];
  }

  /** @param {string} path */
  async #fetch(path) {
    return checked(await this.connection.ask("GET", path));
  }
}

/** Refuse an invitation that cannot be one. @param {string | null} token */
export function checkToken(token) {
  if (token !== null && !/^[\x20-\x7e]{1,200}$/.test(token)) {
    throw new Refused("a token is one line of letters, digits and signs: copy the invitation as it is");
  }
}

/** What was answered. Only the service itself refuses for good; whoever else answers is on the way to it. @param {Answer} answer */
function checked(answer) {
  if (answer.status === 200) return answer.body;
  if (!FINAL.includes(answer.status)) {
    throw new Unreachable(`the service asks to come back later (status ${answer.status}): try again`);
  }
  let stated;
  try {
    const refusal = read(answer.body);
    stated = [field(refusal, "error", "text").slice(0, 40), field(refusal, "reason", "text").slice(0, 300)];
  } catch {
    throw notTheService(answer);
  }
  throw new Rejected(stated[0], stated[1]);
}

/** The body of an answer, read no further than a device can hold. @param {Response} answer */
async function content(answer) {
  const pieces = [];
  let size = 0;
  const reader = answer.body?.getReader();
  for (let piece = await reader?.read(); piece && !piece.done; piece = await reader?.read()) {
    size += piece.value.length;
    if (size > LARGEST) {
      await reader?.cancel();
      throw new Refused("the answer of the service is too large for a device");
    }
    pieces.push(piece.value);
  }
  const whole = new Uint8Array(size);
  pieces.reduce((at, piece) => (whole.set(piece, at), at + piece.length), 0);
  return whole;
}

/** @param {Answer} answer */
function notTheService(answer) {
  return new Unreachable(
    `something else than the service has answered (status ${answer.status}), a portal perhaps: try again later, nothing is lost`,
  );
}

/** @param {string} url */
function noAddress(url) {
  return new Refused(`the address of a service looks like https://study.example.org, got '${String(url).slice(0, 80)}'`);
}
