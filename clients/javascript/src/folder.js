/**
 * The store of Node: a folder that holds the state as one file, NUMBER.json, readable by its owner alone.
 *
 * A change writes the next state to a file of its own, synced, and then gives it the next number by a hard link, which
 * fails if somebody else has taken that number: then the change is made again from what is there now. So a kill at any
 * moment leaves the old state or the new one, and of two processes none overwrites what the other has written. Older
 * numbers are removed afterwards. Deleting a file is not erasure.
 */
import { randomBytes } from "node:crypto";
import { link, mkdir, open, readFile, readdir, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { Refused } from "./errors.js";

/** @typedef {import("./store.js").State} State */
/** @typedef {import("./store.js").Box} Box */

/** @implements {Box} */
export class FolderBox {
  /** @param {string} path */
  constructor(path) {
    this.path = path;
    this.ready = false;
    this.turn = Promise.resolve();
  }

  /** @template T @param {(state: State) => T} edit @returns {Promise<T>} */
  change(edit) {
    const mine = this.turn.then(() => this.#changed(edit));
    this.turn = mine.then(() => {}, () => {});
    return mine;
  }

  /** @template T @param {(state: State) => T} edit @returns {Promise<T>} */
  async #changed(edit) {
    try {
      if (!this.ready) await this.#prepare();
      for (;;) {
        const done = await this.#attempt(edit);
        if (done) return done.result;
      }
    } catch (error) {
      if (error instanceof Refused) throw error;
      throw new Refused(
        `the store '${basename(this.path)}' cannot be used as one of this client ` +
          `(${/** @type {any} */ (error).code ?? "not its content"}): give a folder of its own for each device, on a ` +
          "disk that can be written",
      );
    }
  }

  /** One attempt; null if somebody else was faster. @template T @param {(state: State) => T} edit */
  async #attempt(edit) {
    const newest = await this.#newest();
    let before = "{}";
    try {
      if (newest) before = await readFile(this.#file(newest), "utf8");
    } catch (error) {
      if (/** @type {any} */ (error).code === "ENOENT") return null;
      throw error;
    }
    const state = JSON.parse(before);
    const result = edit(state);
    const after = JSON.stringify(state);
    if (after === before) return { result };
    return (await this.#written(after, newest + 1)) ? { result } : null;
  }

  /** Whether the text has become the state of this number. @param {string} text @param {number} number */
  async #written(text, number) {
    const draft = join(this.path, `${randomBytes(8).toString("hex")}.draft`);
    const file = await open(draft, "wx", 0o600);
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    try {
      await link(draft, this.#file(number));
    } catch (error) {
      if (["EEXIST", "ENOENT"].includes(/** @type {any} */ (error).code)) return false;
      throw error;
    } finally {
      await rm(draft, { force: true });
    }
    await this.#sync();
    const numbers = await this.#numbers();
    const newest = Math.max(...numbers);
    for (const old of numbers) if (old < newest) await rm(this.#file(old), { force: true });
    return newest === number; // else others have gone on, from this state or from an older one: look again
  }

  async #prepare() {
    await mkdir(this.path, { recursive: true, mode: 0o700 });
    for (const name of await readdir(this.path)) {
      if (name.endsWith(".draft")) await rm(join(this.path, name), { force: true });
    }
    this.ready = true;
  }

  async #numbers() {
    return (await readdir(this.path)).filter((name) => /^[0-9]{1,15}\.json$/.test(name)).map((name) => parseInt(name, 10));
  }

  async #newest() {
    return Math.max(0, ...(await this.#numbers()));
  }

  /** The names in the folder, on the disk. */
  async #sync() {
    if (process.platform === "win32") return; // there folders cannot be synced
    const folder = await open(this.path);
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  }

  /** @param {number} number */
  #file(number) {
    return join(this.path, `${number}.json`);
  }
}
