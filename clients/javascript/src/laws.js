/**
 * That the integer thresholds of a round keep the epsilon that was agreed to; else the device sends nothing.
 *
 * An item of a step, or an answer to a question, is reported with a threshold N out of W = 2^62. Between any two items
 * the probabilities of one and the same report differ at most by the factor (W - (k - 1) N) / N for one item of k, and
 * (W - N) / N for a bit of each item, and r reports about m steps each by its (r m)-th power; answered bits of shuffled
 * studies have the second one for each of the m bits that two records can set differently. That factor must be at most
 * e^(epsilon / (r m)); both sides are compared in whole numbers, the exponential rounded down.
 */
import { Refused } from "./errors.js";
import { WHOLE } from "./exact.js";
import { field, known, whole } from "./words.js";

/** @typedef {{items: number, threshold: bigint}} Law */
/** @typedef {import("./exact.js").Fraction} Fraction */

const MANY = 2 ** 40; // items
const MOST = 700n; // above this no threshold is too small: one in 2^62 is not below e^-700
const BITS = 320n; // after the point
const HALVINGS = 10n;

/** A law as the service states it: `{"items": d, "lie": "N"}`. @param {any} content @returns {Law} */
export function readLaw(content) {
  const stated = known(content, "object", "a law");
  const items = whole(stated, "items", 2, MANY);
  const lie = field(stated, "lie", "text");
  if (!/^(?:0|[1-9][0-9]{0,18})$/.test(lie)) throw new Refused("the threshold of a law must be a whole number, as text");
  return { items, threshold: BigInt(lie) };
}

/** Refuse a law that loses more than its part of epsilon, or that is none. @param {Law} law @param {string} response @param {Fraction} most */
export function checkLaw(law, response, most) {
  if (keeps(law, response, most)) return;
  throw new Refused(
    `the service states a law of ${law.items} items that does not keep epsilon ${shown(most)}, its part of ` +
      "what was agreed to: nothing is sent; ask whoever runs the study",
  );
}

/** Whether a law is one, and loses at most so much. @param {Law} law @param {string} response @param {Fraction} most */
export function keeps({ items, threshold }, response, most) {
  const mostLies = response === "kary" ? WHOLE / BigInt(items) : WHOLE / 2n;
  if (threshold < 1n || threshold > mostLies) return false;
  const truth = response === "kary" ? WHOLE - BigInt(items - 1) * threshold : WHOLE - threshold;
  return truth << BITS <= threshold * expDown(most);
}

let last = /** @type {[string, bigint]} */ (["", 0n]);

/**
 * At most e^x times 2^320, for x >= 0. With y = x / 2^10 the exponential series, each term rounded down and the rest
 * left out, is at most e^y; squared ten times, rounding down, it is at most e^x, and less by shares below 2^-300.
 * @param {Fraction} x
 */
export function expDown([numerator, denominator]) {
  if (numerator < 0n) return 0n;
  const name = `${numerator}/${denominator}`;
  if (last[0] === name) return last[1];
  const one = 1n << BITS;
  let y = (numerator << BITS) / denominator;
  if (y > MOST * one) y = MOST * one;
  y >>= HALVINGS;
  let sum = 0n;
  for (let term = one, n = 1n; term; term = ((term * y) >> BITS) / n, n++) sum += term;
  for (let i = 0n; i < HALVINGS; i++) sum = (sum * sum) >> BITS;
  last = [name, sum];
  return sum;
}

/** @param {Fraction} fraction */
function shown([numerator, denominator]) {
  return Number((numerator * 10000n) / denominator) / 10000;
}
