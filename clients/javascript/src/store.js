/**
 * What must outlast a crash of the device: how many reports were begun, their bytes, the last head, evidence.
 *
 * A report has a row from the moment its episode begins. The row holds the text that is to be sent, at first that of the
 * empty record, so that whatever happens to the episode, something can be sent at the time that was drawn. `settle` puts
 * the real report in its place; from the first attempt to send on (`fix`) it never changes. Rows are never removed,
 * because they are the cap; their texts are, once the service has answered. Records are never stored; in central studies
 * the report is one, and lies here from the end of the episode until the service has answered.
 *
 * All of it is one small state, and a `Box` keeps it: `change(edit)` runs `edit` on the state, and the new state is
 * durable, or refused, as a whole when the promise resolves, also with several processes or tabs at once. A box may run
 * an edit again on a newer state, so edits say the same when they find themselves done.
 */

/** @typedef {{id: string, due: number, body: string | null, state: string}} Row */
/** @typedef {{reports: Row[], head: string | null, evidence: [string, string][], visit: number | null}} Kept */
/** @typedef {{[study: string]: Kept}} State */
/** @typedef {{change<T>(edit: (state: State) => T): Promise<T>}} Box */

/** A box that lasts as long as the program, for tests and simulated people. @implements {Box} */
export class MemoryBox {
  constructor() {
    this.state = /** @type {State} */ ({});
  }

  /** @template T @param {(state: State) => T} edit */
  async change(edit) {
    return edit(this.state);
  }
}

/** The part of one study in a box, with the changes that a device makes. */
export class Store {
  /** @param {Box} box @param {string} study */
  constructor(box, study) {
    this.box = box;
    this.study = study;
  }

  /** Note a report; false, and nothing is noted, if there are `cap` already. @param {number} cap @param {Row} row */
  begin(cap, row) {
    return this.#change((kept) => {
      if (find(kept, row.id)) return true;
      if (kept.reports.length >= cap) return false;
      kept.reports.push({ ...row });
      return true;
    });
  }

  /** The real report of an open episode; false if the empty one has been sent already. @param {string} id @param {string} body */
  settle(id, body) {
    return this.#change((kept) => {
      const row = find(kept, id);
      if (!row) return false;
      if (row.state === "open") Object.assign(row, { body, state: "ready" });
      return row.state === "ready" && row.body === body;
    });
  }

  /** The text of a report, which never changes from now on; null if it was answered already. @param {string} id */
  fix(id) {
    return this.#change((kept) => {
      const row = find(kept, id);
      if (!row || row.body === null) return null;
      row.state = "sending";
      return row.body;
    });
  }

  /** Note that the service has answered, and forget the text. @param {string} id @param {"done" | "rejected"} state */
  close(id, state) {
    return this.#change((kept) => {
      const row = find(kept, id);
      if (row) Object.assign(row, { body: null, state });
    });
  }

  /** Reports that were not answered yet, the oldest first. */
  waiting() {
    return this.#change((kept) => kept.reports.filter((row) => row.body !== null).map((row) => ({ ...row })));
  }

  /** How many reports were begun. */
  count() {
    return this.#change((kept) => kept.reports.length);
  }

  /** The last head that was seen, as its canonical text. */
  head() {
    return this.#change((kept) => kept.head);
  }

  /** @param {string} head */
  keepHead(head) {
    return this.#change((kept) => {
      kept.head = head;
    });
  }

  /** Pairs of heads that contradict each other, as canonical texts. */
  evidence() {
    return this.#change((kept) => kept.evidence.map((pair) => [...pair]));
  }

  /** @param {[string, string]} pair */
  keepEvidence(pair) {
    return this.#change((kept) => {
      if (!kept.evidence.some((other) => other.join() === pair.join())) kept.evidence.push(pair);
    });
  }

  /** The time that was drawn for the next visit. */
  visit() {
    return this.#change((kept) => kept.visit);
  }

  /** Remember the time of the next visit, unless there is one; null forgets it. @param {number | null} time */
  planVisit(time) {
    return this.#change((kept) => (kept.visit = time === null ? null : (kept.visit ?? time)));
  }

  /** @template T @param {(kept: Kept) => T} edit */
  #change(edit) {
    const empty = { reports: [], head: null, evidence: [], visit: null };
    return this.box.change((state) => edit(Object.hasOwn(state, this.study) ? state[this.study] : (state[this.study] = empty)));
  }
}

/** @param {Kept} kept @param {string} id */
function find(kept, id) {
  return kept.reports.find((row) => row.id === id);
}
