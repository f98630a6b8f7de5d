/**
 * The JSON of the service: canonical texts, their hashes, and fields that are read strictly.
 *
 * Canonical JSON has its keys sorted by code points, no spaces, only ASCII and neither NaN nor infinity, and writes
 * numbers as Python does: 1 and 1.0 are different texts, and so are 0.00001 and 1e-05. JSON.parse forgets which of the
 * two was written, so answers are read by a parser of our own, which also refuses names that occur twice. Numbers with
 * a point or an exponent become a `Float`, whole numbers a number, or a bigint where a double cannot hold them.
 */
import { Refused } from "./errors.js";

const DEEPEST = 100; // lists and objects within each other
const DIGITS = 4300; // of a whole number, as Python has it
const NUMBER = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;
const TEXT = /"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const SPACE = /[ \t\n\r]*/y;
const WORDS = /** @type {const} */ ([["true", true], ["false", false], ["null", null]]);

/** @typedef {{[name: string]: any}} Content a JSON object, without a prototype */

/** A number that was written with a point or an exponent. */
export class Float {
  /** @param {number} value */
  constructor(value) {
    this.value = value;
  }
}

/** A JSON object from the bytes of an answer. @param {Uint8Array} bytes @returns {Content} */
export function read(bytes) {
  let found;
  try {
    found = parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw new Refused("the answer is not a JSON object: check the address of the service");
  }
  return known(found, "object", "the answer of the service");
}

/** Any JSON text as plain data; throws a SyntaxError. @param {string} text @returns {any} */
export function parse(text) {
  let at = 0;
  /** @param {RegExp} pattern */
  const take = (pattern) => {
    pattern.lastIndex = at;
    const match = pattern.exec(text);
    if (match) at = pattern.lastIndex;
    return match;
  };
  const wrong = () => new SyntaxError("not JSON");
  /** @param {string} sign */
  const sign = (sign) => {
    take(SPACE);
    const here = text.startsWith(sign, at);
    if (here) at += sign.length;
    return here;
  };
  const string = () => {
    take(SPACE);
    const match = take(TEXT);
    if (!match) throw wrong();
    return JSON.parse(match[0]);
  };
  /** @param {string} end @param {() => void} each */
  const listed = (end, each) => {
    if (sign(end)) return;
    do each();
    while (sign(","));
    if (!sign(end)) throw wrong();
  };
  /** @param {number} depth @returns {any} */
  const value = (depth) => {
    if (depth > DEEPEST) throw wrong();
    if (sign("{")) {
      const found = Object.create(null);
      listed("}", () => {
        const name = string();
        if (name in found || !sign(":")) throw wrong();
        found[name] = value(depth + 1);
      });
      return found;
    }
    if (sign("[")) {
      /** @type {any[]} */
      const found = [];
      listed("]", () => found.push(value(depth + 1)));
      return found;
    }
    if (text[at] === '"') return string();
    for (const [word, meaning] of WORDS) if (sign(word)) return meaning;
    const match = take(NUMBER);
    if (!match) throw wrong();
    if (match[1] === undefined && match[2] === undefined) {
      if (match[0].length > DIGITS) throw wrong();
      const small = Number(match[0]);
      return Number.isSafeInteger(small) ? small + 0 : BigInt(match[0]);
    }
    if (!Number.isFinite(Number(match[0]))) throw wrong();
    return new Float(Number(match[0]));
  };
  const found = value(0);
  take(SPACE);
  if (at < text.length) throw wrong();
  return found;
}

/** Plain data as the one text that is hashed and signed. @param {any} content @returns {string} */
export function canonical(content) {
  if (content instanceof Float) return float(content.value);
  if (Array.isArray(content)) return `[${content.map(canonical).join()}]`;
  if (content && typeof content === "object") {
    const names = Object.keys(content).sort(byCodePoints);
    return `{${names.map((name) => `${ascii(name)}:${canonical(content[name])}`).join()}}`;
  }
  if (typeof content === "string") return ascii(content);
  if (typeof content === "number" && !Number.isSafeInteger(content)) throw new TypeError("give numbers as Float");
  return String(content);
}

/** The hash of plain data. @param {any} content */
export async function digest(content) {
  const hash = await subtle().digest("SHA-256", new TextEncoder().encode(canonical(content)));
  return `sha256:${hex(new Uint8Array(hash))}`;
}

/** WebCrypto, which browsers keep from pages that came over plain http. @returns {SubtleCrypto} */
export function subtle() {
  if (!globalThis.crypto?.subtle) {
    throw new Refused("there is no WebCrypto here: open the page over https, or take Node 20 or later");
  }
  return globalThis.crypto.subtle;
}

/** @param {Uint8Array} bytes */
export function hex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Bytes from hexadecimal digits; none if they are not. @param {string} digits */
export function unhex(digits) {
  if (!/^(?:[0-9a-f]{2})*$/i.test(digits)) return new Uint8Array();
  return Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

/** A number as Python's repr writes it. @param {number} value */
function float(value) {
  if (!Number.isFinite(value)) throw new TypeError("not a finite number");
  const [digits, power] = Math.abs(value).toExponential().split("e");
  const exponent = Number(power);
  const minus = value < 0 || Object.is(value, -0) ? "-" : "";
  if (value === 0) return `${minus}0.0`;
  if (exponent < -4 || exponent >= 16) {
    return `${minus}${digits}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
  }
  const plain = digits.replace(".", "");
  if (exponent < 0) return `${minus}0.${"0".repeat(-exponent - 1)}${plain}`;
  const whole = plain.slice(0, exponent + 1).padEnd(exponent + 1, "0");
  return `${minus}${whole}.${plain.slice(exponent + 1) || "0"}`;
}

/** @param {string} text */
function ascii(text) {
  const escaped = (/** @type {string} */ unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(text).replace(/[\x7f-\uffff]/g, escaped);
}

/** @param {string} one @param {string} other */
function byCodePoints(one, other) {
  let at = 0;
  while (at < one.length && one[at] === other[at]) at++;
  const rank = (/** @type {string} */ text) => {
    const unit = text.charCodeAt(at);
    return unit >= 0xd800 && unit < 0xe000 ? unit + 0x2000 : unit >= 0xe000 ? unit - 0x800 : unit >= 0 ? unit : -1;
  };
  return rank(one) - rank(other);
}

/** @type {{[kind: string]: [string, (value: any) => boolean]}} */
const KINDS = {
  object: ["JSON object", (v) => typeof v === "object" && v !== null && !Array.isArray(v) && !(v instanceof Float)],
  list: ["list", Array.isArray],
  text: ["text", (v) => typeof v === "string"],
  whole: ["whole number", (v) => typeof v === "bigint" || Number.isSafeInteger(v)],
  flag: ["true or false", (v) => typeof v === "boolean"],
};

/** A value of this kind. @param {any} value @param {string} kind @param {string} what */
export function known(value, kind, what) {
  const [name, is] = KINDS[kind];
  if (!is(value)) throw new Refused(`${what} must be a ${name}`);
  return value;
}

/** A field of an object, of this kind. @param {Content} content @param {string} name @param {string} kind */
export function field(content, name, kind) {
  if (!(name in content)) {
    throw new Refused(`the field '${name}' is missing: is the service of another version?`);
  }
  return known(content[name], kind, `the field '${name}'`);
}

/**
 * A field that is a whole number between two others.
 * @param {Content} content @param {string} name @param {number} least @param {number} most @returns {number}
 */
export function whole(content, name, least, most) {
  const value = field(content, name, "whole");
  if (value < least || value > most) {
    throw new Refused(`the field '${name}' must lie between ${least} and ${most}`);
  }
  return Number(value);
}

/** A finite number. @param {any} value @param {string} what */
export function finite(value, what) {
  const number = value instanceof Float ? value.value : KINDS.whole[1](value) ? Number(value) : NaN;
  if (!(Math.abs(number) <= 1e300)) throw new Refused(`${what} must be a number`);
  return number;
}
