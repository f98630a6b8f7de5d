// The hashes of a study, computed anew in this browser: nobody has to believe the page.
//
// Texts come as they were hashed. The hash of something is "sha256:" and the hexadecimal SHA-256 of its text. A head
// names the hash of the head before it and of its policy, and is signed (Ed25519) by the key of the declaration. An
// entry of the ledger has the hash of the hash before it, a line break, and its own text.

const subtle = globalThis.crypto?.subtle; // only where the page came over TLS, or from this machine
const bytes = (text) => new TextEncoder().encode(text);
const fromHex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));

export const CANNOT = "this browser computes no hashes here: open the page over https";

/** Whether this browser can compute hashes on this page. */
export const canCheck = () => subtle !== undefined;

/** The SHA-256 of a text, in hexadecimal digits. */
export async function sha256(text) {
  const digest = new Uint8Array(await subtle.digest("SHA-256", bytes(text)));
  return [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Canonical JSON of texts and whole numbers: keys sorted, no spaces, nothing but ASCII. */
export function canonical(value) {
  if (typeof value === "string") {
    return JSON.stringify(value).replace(/[\u007f-\uffff]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
  }
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value === "object" && value !== null) {
    const names = Object.keys(value).sort();
    return `{${names.map((name) => `${canonical(name)}:${canonical(value[name])}`).join(",")}}`;
  }
  if (!Number.isSafeInteger(value)) throw new Error("only whole numbers and texts have one way to be written here");
  return String(value);
}

/** Whether a head is signed by this key: true, false, or null where the browser does not know such signatures. */
export async function isSigned(head, key) {
  const { signature, ...rest } = head;
  if (head.key !== key) return false;
  let known;
  try {
    known = await subtle.importKey("raw", fromHex(key), { name: "Ed25519" }, false, ["verify"]);
  } catch (error) {
    return error.name === "NotSupportedError" ? null : false; // a key that is none has signed nothing
  }
  return subtle.verify({ name: "Ed25519" }, known, fromHex(signature), bytes(canonical(rest)));
}

/** Follows the heads of a study from its first round. */
export class Heads {
  constructor(study, key) {
    Object.assign(this, { study, key, last: null, number: 0, previous: "", signatures: true, problem: "" });
  }

  /** Follow the chain by one head; whether it is sound. */
  async follow(head) {
    const missing = head.round !== this.number + 1;
    const expected = !missing && head.previous === this.previous && head.study === this.study;
    const signed = await isSigned(head, this.key);
    if (missing) this.problem ||= `heads between rounds ${this.number} and ${head.round} are missing: were they lost with a database?`;
    if (!expected) this.problem ||= `the head of round ${head.round} does not follow from the one before it`;
    if (signed === false) this.problem ||= `the head of round ${head.round} is not signed by the key of the study`;
    if (signed === null) this.signatures = false;
    [this.last, this.number] = [head, head.round];
    this.previous = `sha256:${await sha256(canonical(head))}`;
    return expected && signed !== false;
  }
}

/** Follows the entries of a ledger from its first. */
export class Entries {
  constructor(first) {
    Object.assign(this, { hash: first, number: -1, problem: "" });
  }

  /** Follow the chain by one entry; whether it is sound. */
  async follow(entry) {
    const sound = entry.number === this.number + 1 && entry.hash === (await sha256(`${this.hash}\n${entry.body}`));
    if (!sound) this.problem ||= `entry ${entry.number} does not follow from the one before it`;
    [this.hash, this.number] = [entry.hash, entry.number];
    return sound;
  }
}
