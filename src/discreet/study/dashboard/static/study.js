// What grows round by round: policy, rounds, ledger, heads; fetched from where this page stopped.

import { CANNOT, Entries, Heads, canCheck, sha256 } from "./chain.js";
import { Chart, steps } from "./charts.js";
import { ask } from "./connection.js";
import { Listing, Table, byId, make, moment, say, whole, words } from "./elements.js";
import { PolicyView } from "./policy.js";

const PAUSE = 400; // milliseconds between two fetches at least
const NEWS = 10_000; // milliseconds between two announcements at least

const MARKS = { true: ["good", "✓ recomputed"], false: ["bad", "✗ wrong"], null: ["quiet", "not checked"] };
const mark = (sound) => make("span", { class: MARKS[sound][0] }, MARKS[sound][1]);
const short = (hash) => make("code", { title: hash }, `${hash.replace("sha256:", "").slice(0, 12)}…`);
const number = (value) => (value === 0 ? "0" : value.toPrecision(4));

export class Study {
  constructor(token) {
    Object.assign(this, { token, busy: false, latest: null, rounds: new Map(), lastRound: 1, entries: [], heads: [], announced: 0 });
    this.policy = new PolicyView();
    this.roundList = new Listing(byId("rounds-table"), "Rounds, newest first", ["Round", "State", "Reports counted", "Wanted", "Opened"]);
    this.ledgerList = new Listing(byId("ledger-table"), "Entries, newest first", ["Entry", "What", "Epsilon", "Chain", "Hash", "Time"]);
    this.headList = new Listing(byId("heads-table"), "Heads, newest first", ["Round", "Chain", "Policy", "Head before", "Released"]);
    this.refusals = new Table(byId("refusals-table"), "Refusals by reason", ["Code", "Times", "What it means"], "plain wraps");
    this.gaps = new Chart(byId("gaps"), steps);
  }

  /** An event has come: write refusals, and fetch what is new. */
  take(now) {
    this.latest = now;
    this.showRefusals();
    if (!this.busy) this.renew();
  }

  get lastHead() {
    return this.heads.at(-1)?.round ?? 0;
  }

  get behind() {
    const { round, entries, ended } = this.latest;
    return !this.rounds.has(round) || this.entries.length <= entries || this.ended !== ended;
  }

  async renew() {
    this.busy = true;
    try {
      while (this.behind) {
        await this.fetchMore();
        await new Promise((done) => setTimeout(done, PAUSE));
      }
    } catch {
      // The stream of events notices a lost connection and says so; the next event starts this again.
    } finally {
      this.busy = false;
    }
  }

  async fetchMore() {
    const ended = this.latest.ended;
    const from = this.lastRound; // again: it may have closed
    const found = await ask(`v1/operator/overview?round=${from}&entry=${this.entries.length}`, this.token);
    const { heads } = await ask(`v1/heads?from=${this.lastHead + 1}`);
    if (!this.declared) await this.begin(found);
    else if (found.study.hash !== this.declared.hash) return location.reload();
    for (const round of found.rounds) {
      this.rounds.set(round.number, round);
      this.lastRound = Math.max(this.lastRound, round.number);
    }
    await this.follow(heads, found.ledger.entries);
    this.rehearsal = found.rehearsal;
    this.ended = ended;
    this.show(found);
  }

  async begin({ study, ledger, refusals, recipe }) {
    [this.declared, this.meanings] = [study, refusals];
    const declared = JSON.parse(study.text);
    const title = declared.title || declared.name;
    byId("title").replaceChildren(words(title));
    document.title = `${title} – dashboard`;
    this.headChain = new Heads(study.hash, declared.keys.signing);
    this.entryChain = new Entries(ledger.first);
    const named = canCheck() ? study.hash === `sha256:${await sha256(study.text)}` : null;
    const facts = [
      ["Guarantee", this.latest.guarantee],
      ["In words", study.promise.words],
      ["If parties collude", study.promise.alone?.words ?? null],
      ["Model and recipe", `${declared.privacy.model}, ${recipe}`],
      ["Study", make("span", {}, make("code", { class: "hash" }, study.hash), " ", mark(named))],
    ];
    const rows = facts.filter(([, value]) => value !== null);
    byId("promise").replaceChildren(
      ...rows.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))),
    );
  }

  async follow(heads, entries) {
    for (const head of heads) {
      if (head.round <= this.lastHead) continue;
      this.heads.push({ ...head, sound: canCheck() ? await this.headChain.follow(head) : null });
    }
    for (const entry of entries) {
      if (entry.number < this.entries.length) continue;
      this.entries.push({ ...entry, sound: canCheck() ? await this.entryChain.follow(entry) : null });
    }
  }

  show(found) {
    this.policy.show(found.policy, this.rounds.get(found.policy.round), this.latest.ended);
    this.showRounds();
    this.showLedger();
    this.showHeads(found.policy);
    this.showRehearsal();
    this.announce();
  }

  showRefusals() {
    const counts = Object.entries(this.latest.refused).sort((one, two) => two[1] - one[1]);
    const rows = counts.map(([code, often]) => [make("code", {}, code), whole(often), this.meanings?.[code] ?? ""]);
    this.refusals.fill(rows.length ? rows : [["–", "0", "nothing was refused"]]);
  }

  showRounds() {
    const state = { counted: "closed, released", final: "the last policy", abandoned: "given up", lost: "lost" };
    const newest = [...this.rounds.values()].reverse();
    this.roundList.fill(
      newest.map((row) => () => [
        whole(row.number),
        row.how === null ? "open" : (state[row.how] ?? row.how),
        row.counted === null ? "–" : whole(row.counted),
        whole(row.wanted),
        moment(row.opened),
      ]),
    );
  }

  showLedger() {
    const chain = this.entryChain;
    this.verdict("ledger-check", chain.problem, `${whole(this.entries.length)} entries: every hash follows from the one before it`);
    this.ledgerList.fill(
      [...this.entries].reverse().map((entry) => () => {
        const body = JSON.parse(entry.body);
        const what = body.what ?? "the data set is declared, with its budget";
        const free = body.cost?.every((part) => part === "0");
        const cost = body.cost ? (free ? "paid before" : String(body.guarantee?.epsilon ?? "–")) : "–";
        return [whole(entry.number), words(what), cost, mark(entry.sound), short(entry.hash), moment(body.time)];
      }),
    );
  }

  async showHeads(policy) {
    const chain = this.headChain;
    const head = this.heads.find((each) => each.round === policy.round);
    const same = !canCheck() || head?.policy === `sha256:${await sha256(policy.text)}`;
    if (head && !same) chain.problem ||= `the policy of round ${policy.round} is not the one that its head names`;
    const signed = chain.signatures ? "signed by the key of the study" : "signatures were not checked: this browser does not know Ed25519";
    this.verdict("heads-check", chain.problem, `${whole(this.heads.length)} heads follow from each other, ${signed}, and the latest names the policy above`);
    this.headList.fill(
      [...this.heads].reverse().map((each) => () => [
        whole(each.round),
        mark(each.sound),
        short(each.policy),
        each.previous ? short(each.previous) : "first",
        each.released ? short(each.released) : "nothing",
      ]),
    );
  }

  verdict(id, problem, sound) {
    byId(id).className = problem || !canCheck() ? "check bad" : "check good";
    say(id, canCheck() ? (problem ? `✗ ${problem}` : `✓ recomputed in this browser: ${sound}`) : CANNOT);
  }

  showRehearsal() {
    const known = this.rehearsal !== null;
    byId("rehearsal-part").hidden = !known;
    byId("to-rehearsal").hidden = !known;
    if (!known) return;
    const { world, best } = this.rehearsal;
    const rounds = [...this.rounds.values()].filter((row) => row.value !== null); // lost rounds have none
    const gaps = rounds.map((row) => Math.max(0, best - row.value));
    const regret = rounds.reduce((total, row, index) => total + gaps[index] * (row.counted ?? 0), 0);
    say("rehearsal-note", `Computed, not measured: simulated people in the world ${world}, whose laws are known. With real people there is no such number.`);
    const value = rounds.at(-1).value;
    say("value", number(value));
    say("value-note", `the best possible is ${number(best)}`);
    say("gap", number(gaps.at(-1)));
    say("regret", number(regret));
    this.gaps.show({
      values: gaps,
      labels: ["round 1", `round ${whole(rounds.at(-1).number)}`],
      says: `lost for each person: ${number(gaps[0])} in round 1, ${number(gaps.at(-1))} in round ${whole(rounds.at(-1).number)}`,
    });
  }

  /** Tell screen readers about new rounds, now and then. */
  announce() {
    if (Date.now() - this.announced < NEWS) return;
    this.announced = Date.now();
    const { round, ended } = this.latest;
    say("news", ended === null ? `Round ${whole(round)} is open.` : `The study has ended.`);
  }
}
