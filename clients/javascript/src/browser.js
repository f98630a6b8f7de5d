/** The store of a browser: one record of IndexedDB, changed in one strictly durable transaction at a time. */
import { Refused } from "./errors.js";

/** @typedef {import("./store.js").State} State */
/** @typedef {import("./store.js").Box} Box */

const TABLE = "state";

/** A database of this page's origin. Tabs share it; the browser, or who uses it, can delete it. @implements {Box} */
export class BrowserBox {
  /** @param {string} name */
  constructor(name) {
    this.name = name;
    /** @type {Promise<IDBDatabase> | null} */
    this.open = null;
  }

  /** @template T @param {(state: State) => T} edit @returns {Promise<T>} */
  async change(edit) {
    const base = await (this.open ??= this.#opened());
    return new Promise((resolve, reject) => {
      const change = this.#begun(base);
      const table = change.objectStore(TABLE);
      const found = table.get(0);
      /** @type {T} */
      let result;
      found.onsuccess = () => {
        const state = found.result ?? {};
        const before = JSON.stringify(state);
        result = edit(state);
        if (JSON.stringify(state) !== before) table.put(state, 0);
      };
      change.oncomplete = () => resolve(result);
      change.onabort = () => reject(refusal());
    });
  }

  /** @returns {Promise<IDBDatabase>} */
  #opened() {
    return new Promise((resolve, reject) => {
      const asked = indexedDB.open(this.name, 1);
      asked.onupgradeneeded = () => asked.result.createObjectStore(TABLE);
      asked.onerror = () => {
        this.open = null;
        reject(refusal());
      };
      asked.onsuccess = () => {
        asked.result.onclose = asked.result.onversionchange = () => {
          this.open = null;
          asked.result.close();
        };
        resolve(asked.result);
      };
    });
  }

  /** A change of this database; if the browser has closed it meanwhile, the next change opens it again. @param {IDBDatabase} base */
  #begun(base) {
    try {
      return base.transaction(TABLE, "readwrite", { durability: "strict" });
    } catch {
      this.open = null;
      throw refusal();
    }
  }
}

function refusal() {
  return new Refused(
    "this browser lets the page keep nothing (a private window, a full disk?), and a device must keep count of its " +
      "reports: nothing is sent; open the page in a usual window",
  );
}
