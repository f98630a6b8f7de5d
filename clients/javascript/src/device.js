/**
 * A person's device in a study: begin an episode, act, record what happened, finish, send.
 *
 *     const device = new Device("https://study.example.org", { studyHash: "sha256:..." });
 *     await device.begin();                                // study and policy, checked
 *     for (let step = 0; step < device.horizon; step++) {
 *       const action = device.act(step, state);            // labels where the study has labels
 *       ...                                                // the app does it, and sees a reward and the next state
 *       device.record(step, state, action, reward);
 *     }
 *     await device.report();                               // finish(), then send() what is due
 *
 * Each study allows a number of reports, and the device keeps count of them itself. What is sent, and its id, is in the
 * store before the first attempt; a repeated attempt sends the same bytes. The time of sending is drawn when the episode
 * begins, and the report leaves at that time whether the episode was finished or not (then as the empty record).
 */
import { BrowserBox } from "./browser.js";
import { Refused, Rejected, SplitView } from "./errors.js";
import { Tape, systemEntropy } from "./exact.js";
import { checkChain, platformVerify } from "./heads.js";
import { draw, plays } from "./policy.js";
import { pick, reportOf } from "./reports.js";
import { MemoryBox, Store } from "./store.js";
import { seconds } from "./study.js";
import { Connection, Service, checkToken } from "./transport.js";
import { canonical, hex, parse } from "./words.js";

/** @typedef {import("./study.js").Study} Study */
/** @typedef {{id: string, study: Study, round: import("./reports.js").Round, head: import("./words.js").Content, steps: number[], due: number, record: [number, number, number][]}} Episode */

/** One person's device in one study. `studyHash` is what the person agreed to. */
export class Device {
  /** @type {Episode | null} */
  #episode = null;
  /** @type {Study | null} */
  #known = null;
  /** @type {Promise<unknown>} */
  #turn = Promise.resolve();
  #service;
  #store;
  #atOnce;
  #clock;
  #entropy;
  #tape;
  #seal;

  /**
   * @param {string | import("./transport.js").Asks} url
   * @param {object} options
   * @param {string} options.studyHash
   * @param {string | import("./store.js").Box} [options.store] a folder in Node, a database's name in a browser, ":memory:"
   * @param {string | null} [options.token] an invitation, where the study has them
   * @param {boolean} [options.signatures] false trusts the connection instead of signatures
   * @param {import("./heads.js").Verify} [options.verify] checks Ed25519 signatures where the platform cannot
   * @param {string | import("./transport.js").Asks} [options.shuffler] the second party of a shuffled study, where the declaration names none
   * @param {import("./sealing.js").Seal} [options.seal] seals messages of shuffled studies where the packages of HPKE cannot be loaded
   * @param {boolean} [options.atOnce] for rehearsals: sends when the episode is finished, so the time tells how long it took
   * @param {() => number} [options.clock] seconds; for tests
   * @param {import("./exact.js").Entropy} [options.entropy] for tests
   */
  constructor(url, options) {
    const { studyHash, store = "discreet-device", token = null, signatures = true, verify = platformVerify } = options;
    if (typeof studyHash !== "string" || !/^sha256:[0-9a-f]{64}$/.test(studyHash)) {
      throw new Refused('studyHash must be "sha256:" and 64 hexadecimal digits: it stands on the invitation');
    }
    checkToken(token);
    const connected = (/** @type {any} */ to) => (typeof to === "string" ? new Connection(to) : to);
    this.#service = new Service(connected(url), studyHash, signatures ? verify : null, connected(options.shuffler ?? null), token);
    this.#seal = options.seal;
    this.#store = boxOf(store).then((box) => new Store(box, studyHash));
    this.#store.catch(() => {}); // said by whoever needs it
    this.#atOnce = options.atOnce ?? false;
    this.#clock = options.clock ?? (() => Date.now() / 1000);
    this.#entropy = options.entropy ?? systemEntropy;
    this.#tape = new Tape(this.#entropy);
  }

  /** The study, fetched and checked at the first use. */
  async study() {
    return (this.#known = await this.#service.study());
  }

  /** How many steps an episode has; known once the study was fetched. */
  get horizon() {
    if (!this.#known) throw new Refused("the study is not known yet: await begin() or study() first");
    return this.#known.horizon;
  }

  /** How many reports this device has begun; the study says how many there may be (`cap`). */
  async reports() {
    return (await this.#store).count();
  }

  /** Pairs of signed heads for one round that this device has seen: proof of different views. */
  async evidence() {
    return (await (await this.#store).evidence()).map((pair) => pair.map((text) => JSON.parse(text)));
  }

  /** What has not been answered yet: when it leaves, and exactly what. */
  async waiting() {
    const rows = await (await this.#store).waiting();
    return rows.map(({ id, due, body, state }) => ({ id, due, state, body: JSON.parse(/** @type {string} */ (body)) }));
  }

  /** Draw the time of the next visit, at most "2h", "1d", ... from now; begin() refuses to be earlier. @param {string} within */
  plan(within) {
    return this.#alone(async (store) => {
      const drawn = Math.floor(this.#clock()) + this.#tape.under(seconds(within) + 1);
      return /** @type {number} */ (await store.planVisit(drawn));
    });
  }

  /** Take the policy of this round, and draw what the report is about and when it leaves; resolves to that time. */
  begin() {
    return this.#alone(async (store) => {
      if (this.#episode) throw new Refused("an episode has begun already: finish it, or abandon it");
      const planned = await store.visit();
      if (planned !== null && this.#clock() < planned) {
        throw new Refused("the time that was drawn for this visit has not come yet: call begin() then");
      }
      const study = await this.study();
      if ((await store.count()) >= study.cap) throw usedUp(study);
      const [round, head] = await this.#agreedRound(store);
      const steps = pick(study, round, this.#tape);
      const wait = this.#atOnce ? 0 : this.#tape.under(study.window);
      const id = hex(this.#entropy(16));
      const episode = { id, study, round, head, steps, due: Math.floor(this.#clock()) + wait, record: [] };
      const empty = { id, due: episode.due, body: await this.#body(episode), state: "open" };
      if (!(await store.begin(study.cap, empty))) throw usedUp(study);
      if (planned !== null) await store.planVisit(null);
      this.#episode = episode;
      return episode.due;
    });
  }

  /** The action of the policy at this step and state; the label of a state gives the label of an action. @param {number} step @param {number | string} state @returns {number | string} */
  act(step, state) {
    const { study, round } = this.#running();
    const where = place("state", state, study.states, study.stateLabels);
    place("step", step, study.horizon, null);
    const action = draw(round.policy, step, where, this.#tape);
    return typeof state === "string" && study.actionLabels ? study.actionLabels[action] : action;
  }

  /** Note what happened at a step: where, what was done, and what it earned. It stays in memory. @param {number} step @param {number | string} state @param {number | string} action @param {number} reward */
  record(step, state, action, reward) {
    const { study, round, record } = this.#running();
    if (step !== record.length || step >= study.horizon) {
      throw new Refused(`steps are recorded in order from 0 to ${study.horizon - 1}: next is ${record.length}`);
    }
    const here = place("state", state, study.states, study.stateLabels);
    const done = place("action", action, study.actions, study.actionLabels);
    if (step === 0 && study.start !== null && here !== study.start) {
      throw new Refused("episodes of this study begin in its declared start state: record where it began");
    }
    if (!plays(round.policy, step, here, done)) {
      throw new Refused(
        "the policy of this round does not take this action here: act as act(step, state) says, or abandon() the episode",
      );
    }
    const [low, high] = study.rewards;
    if (typeof reward !== "number" || !(low <= reward && reward <= high)) {
      throw new Refused(`a reward must be a number from ${low} to ${high}, the range that the study declares`);
    }
    record.push([here, done, reward]);
  }

  /** Make the report of the episode, durable before it is sent; resolves to the time when it leaves. */
  finish() {
    return this.#alone(async (store) => {
      const episode = this.#running();
      const { study, record } = episode;
      if (record.length < study.horizon && !study.earlyEnd) {
        throw new Refused(
          `the record has ${record.length} of ${study.horizon} steps, and this study has no early ends: record the rest, ` +
            "or abandon() the episode",
        );
      }
      const settled = await store.settle(episode.id, await this.#body(episode));
      this.#episode = null;
      if (!settled) throw new Refused("the report of this episode has left already, as the empty record: its time had come");
      return episode.due;
    });
  }

  /** Give the episode up: the empty record leaves at the time that was drawn, which is returned. */
  abandon() {
    const { due } = this.#running();
    this.#episode = null;
    return due;
  }

  /** Send what is due, and resolve to how many reports still wait for their time. After `Unreachable` call it again: the same bytes are sent, under the same id, and counted once. */
  send() {
    return this.#alone(async (store) => {
      let left = 0;
      for (const row of await store.waiting()) {
        if (this.#clock() < row.due || (this.#atOnce && this.#episode?.id === row.id)) {
          left++;
          continue;
        }
        const body = await store.fix(row.id);
        if (body === null) continue;
        try {
          await this.#service.send(body);
        } catch (error) {
          if (error instanceof Rejected) await store.close(row.id, "rejected");
          throw error;
        }
        await store.close(row.id, "done");
      }
      return left;
    });
  }

  /** Finish the episode, and send what is due: resolves to how many reports still wait for their time. */
  async report() {
    await this.finish();
    return this.send();
  }

  /** The round of the service, chained to the last one that this device saw. @param {Store} store */
  async #agreedRound(store) {
    const [round, head] = await this.#service.round();
    const last = await store.head();
    try {
      if (last !== null) {
        const [service, check] = [this.#service, (/** @type {any} */ link) => this.#service.checkHead(link)];
        await checkChain(parse(last), head, (start) => service.heads(start), check);
      }
    } catch (error) {
      if (error instanceof SplitView) await store.keepEvidence(error.evidence);
      throw error;
    }
    await store.keepHead(canonical(head));
    return /** @type {const} */ ([round, head]);
  }

  /** @param {Episode} episode */
  async #body(episode) {
    const { id, study, round, steps, record } = episode;
    if (round.terms) return (await import("./shuffled.js")).sealedBody(episode, this.#tape, this.#seal);
    return canonical({ study: study.hash, round: round.number, id, report: reportOf(study, round, steps, record, this.#tape) });
  }

  #running() {
    if (!this.#episode) throw new Refused("no episode has begun: call begin() first");
    return this.#episode;
  }

  /** One after the other, whatever was not awaited. @template T @param {(store: Store) => Promise<T>} work @returns {Promise<T>} */
  #alone(work) {
    const mine = this.#turn.then(() => this.#store).then(work);
    this.#turn = mine.catch(() => {});
    return mine;
  }
}

/** @param {string | import("./store.js").Box} store @returns {Promise<import("./store.js").Box>} */
async function boxOf(store) {
  if (typeof store !== "string") return store;
  if (store === ":memory:") return new MemoryBox();
  if (typeof indexedDB !== "undefined") return new BrowserBox(store);
  return new (await import("./folder.js")).FolderBox(store);
}

/** @param {Study} study */
function usedUp(study) {
  const made = study.cap === 1 ? "the one report" : `the ${study.cap} reports`;
  return new Refused(`this device has made ${made} that the study allows: it takes no further part`);
}

/** @param {string} what @param {number | string} value @param {number} count @param {string[] | null} labels */
function place(what, value, count, labels) {
  if (typeof value === "string" && labels?.includes(value)) return labels.indexOf(value);
  if (typeof value === "number" && Number.isInteger(value) && value >= 0 && value < count) return value;
  throw new Refused(`${what} must be a number in 0..${count - 1}${labels ? " or a label of the study" : ""}`);
}
