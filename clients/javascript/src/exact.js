/**
 * From random bytes to reports, in whole numbers: the steps of Python's `discreet.client.exact`, byte for byte.
 *
 * A *tape* is a source of random bytes. A number z, 0 <= z < 2^62, is read from its next eight bytes, the lowest byte
 * first, shifted right by two. No floating point decides anything: whole numbers beyond 2^53 are bigints, and where
 * many are compared, two words of 32 bits.
 */
import { Refused } from "./errors.js";

export const WHOLE = 1n << 62n;
const AT_ONCE = 65536; // bytes that a browser gives in one call

/** @typedef {(count: number) => Uint8Array} Entropy */
/** @typedef {[bigint, bigint]} Fraction numerator and denominator, not necessarily reduced */

/** Random bytes of the operating system. @type {Entropy} */
export function systemEntropy(count) {
  const bytes = new Uint8Array(count);
  for (let at = 0; at < count; at += AT_ONCE) crypto.getRandomValues(bytes.subarray(at, at + AT_ONCE));
  return bytes;
}

/** A tape of given bytes, for tests and examples: refuses to be read beyond its end. @param {Uint8Array} content */
export function given(content) {
  const source = (/** @type {number} */ count) => {
    if (source.read + count > content.length) throw new Refused("the given random bytes are used up: give more");
    source.read += count;
    return content.slice(source.read - count, source.read);
  };
  source.read = 0;
  return source;
}

/** Random bytes, read eight at a time. */
export class Tape {
  /** @param {Entropy} source */
  constructor(source = systemEntropy) {
    this.source = source;
  }

  /** The next number z. */
  number() {
    return view(this.source(8)).getBigUint64(0, true) >> 2n;
  }

  /** A whole number from 0 to n - 1. @param {bigint} n */
  below(n) {
    const end = n * (WHOLE / n);
    let z = this.number();
    while (z >= end) z = this.number();
    return z % n;
  }

  /** The same for a small n. @param {number} n */
  under(n) {
    return Number(this.below(BigInt(n)));
  }

  /** True with probability a / b. @param {Fraction} share */
  chance([a, b]) {
    for (;;) {
      const q = (a << 62n) / b;
      a = (a << 62n) % b;
      const z = this.number();
      if (z !== q) return z < q;
      if (!a) return false;
    }
  }

  /** So many different steps, in order. @param {number} horizon @param {number} steps */
  pick(horizon, steps) {
    const picked = [];
    for (let h = 0; h < horizon && picked.length < steps; h++) {
      if (this.under(horizon - h) < steps - picked.length) picked.push(h);
    }
    return picked;
  }

  /** The report of one of `items` items; each wrong one has `threshold` of the numbers. @param {number} item @param {number} items @param {bigint} threshold */
  item(item, items, threshold) {
    const truth = WHOLE - BigInt(items - 1) * threshold;
    const z = this.number();
    return z < truth ? item : Number((BigInt(item) + 1n + (z - truth) / threshold) % BigInt(items));
  }

  /** A bit for each of `items` items, as text; `threshold` of the numbers make a wrong one a one. @param {number} item @param {number} items @param {bigint} threshold */
  bits(item, items, threshold) {
    return this.lies(items, threshold, item).map(Number).join("");
  }

  /** For each of `count` numbers whether it is below the threshold; that of `half` below one half. @param {number} count @param {bigint} threshold @param {number} half */
  lies(count, threshold, half = -1) {
    const numbers = view(this.source(8 * count));
    const usual = words(threshold);
    const even = words(WHOLE / 2n);
    return Array.from({ length: count }, (_, i) => {
      const [high, low] = i === half ? even : usual;
      const top = numbers.getUint32(8 * i + 4, true);
      return top < high || (top === high && numbers.getUint32(8 * i, true) < low);
    });
  }
}

/** (reward - low) / (high - low) exactly: the probability that a reward is reported as one. @param {number} reward @param {number} low @param {number} high @returns {Fraction} */
export function rewardFraction(reward, low, high) {
  const [r, l, h] = together([reward, low, high]);
  return [r - l, h - l];
}

/** Doubles as whole numbers of one common unit, exactly. @param {number[]} values */
export function together(values) {
  const parts = values.map(exactly);
  const least = parts.reduce((least, [, power]) => (power < least ? power : least), parts[0][1]);
  return parts.map(([mantissa, power]) => mantissa << (power - least));
}

/** A double as m 2^p. @param {number} value @returns {[bigint, bigint]} */
export function exactly(value) {
  const bits = new DataView(new ArrayBuffer(8));
  bits.setFloat64(0, value);
  const word = bits.getBigUint64(0);
  const power = (word >> 52n) & 0x7ffn;
  const fraction = word & ((1n << 52n) - 1n);
  const mantissa = power ? fraction | (1n << 52n) : fraction;
  return [value < 0 ? -mantissa : mantissa, (power || 1n) - 1075n];
}

/** The words of 4 N: eight bytes, as a number, are below it exactly if their z is below N. @param {bigint} n */
function words(n) {
  return [Number((4n * n) >> 32n), Number((4n * n) & 0xffffffffn)];
}

/** @param {Uint8Array} bytes */
function view(bytes) {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
