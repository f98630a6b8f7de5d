/** Laws on the device: what is sent has exactly the stated probabilities, and laws that show more are refused. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { WHOLE, Tape, exactly, systemEntropy } from "../src/exact.js";
import { checkLaw, expDown, keeps, readLaw } from "../src/laws.js";
import { perStep } from "../src/study.js";
import { parsed, threshold } from "./helpers/toy.js";
import { FALSE_ALARM, chiSquareTail, pValue } from "./helpers/chance.js";

const fraction = (x) => {
  const [mantissa, power] = exactly(x);
  return [mantissa, 1n << -power];
};

test("doubles are taken apart exactly, subnormal ones too", () => {
  const whole = (m, p) => [BigInt(m), BigInt(p)];
  assert.deepEqual([5e-324, 2 ** -1022, -1.5, 0].map(exactly), [whole(1, -1074), whole(2 ** 52, -1074), whole(-3 * 2 ** 51, -52), whole(0, -1074)]);
});

test("epsilon is shared by all reports and the steps of each", () => {
  const [whole, parts] = perStep({ epsilon: 2.5, cap: 3, kind: { steps: 7 } });
  assert.equal(whole * 42n, 5n * parts);
});

test("the exponential is rounded down, and close", () => {
  const e = 27182818284590452353602874713526624977572470936999595749669676277240766303535n; // times 10^76
  const [below, scale] = [expDown([1n, 1n]) * 10n ** 76n, 1n << 320n];
  assert.ok(below <= (e + 1n) * scale && below > (e - 1n) * scale);
  assert.equal(expDown([0n, 1n]), scale);
  assert.equal(expDown([1000000n, 1n]), expDown([700n, 1n]));
  assert.equal(expDown([-1n, 1n]), 0n);
});

test("laws that lose more than what was agreed to are refused", () => {
  for (const response of ["kary", "unary"]) {
    for (const epsilon of [0.01, 0.5, 1, 2, 4, 12]) {
      for (const items of [2, 3, 16, 48, 101]) {
        const law = { items, threshold: threshold(items, response, fraction(epsilon)) };
        checkLaw(law, response, fraction(epsilon));
        const less = fraction(epsilon * (1 - 1e-9));
        assert.throws(() => checkLaw(law, response, less), /does not keep/);
        assert.ok(!keeps({ items, threshold: law.threshold - 1n }, response, fraction(epsilon)));
      }
    }
  }
});

test("senseless laws are refused", () => {
  for (const N of [0n, WHOLE / 4n + 1n, WHOLE]) assert.ok(!keeps({ items: 4, threshold: N }, "kary", [50n, 1n]));
  assert.ok(!keeps({ items: 4, threshold: WHOLE / 2n + 1n }, "unary", [50n, 1n]));
  for (const lie of ["-1", "1.5", "", "01", "٣", "1".repeat(20), 7, null]) {
    assert.throws(() => readLaw(parsed({ items: 4, lie })));
  }
  for (const items of [1, 0, -3, true]) assert.throws(() => readLaw(parsed({ items, lie: "5" })));
});

test("entropy comes in any amount", (t) => {
  const drawn = systemEntropy(200000);
  for (const part of [drawn.subarray(0, 65536), drawn.subarray(-3000)]) assert.ok(new Set(part).size > 200);
  assert.throws(() => new Tape(() => new Uint8Array()).number(), RangeError);
  t.mock.method(crypto, "getRandomValues", (bytes) => bytes.fill(255));
  assert.ok(systemEntropy(200000).every((byte) => byte === 255)); // nothing is left out
});

test("the tail of chi-square", () => {
  for (const [x, freedom, p] of [[10, 10, 0.44049328506521257], [100, 50, 3.4549e-5], [3, 1, 0.08326451666355]]) {
    assert.ok(Math.abs(chiSquareTail(x, freedom) / p - 1) < 1e-4);
  }
});

for (const response of ["kary", "unary"]) {
  test(`reports (${response}) have the exact law, and not that of another epsilon; one false alarm in 10^9`, async () => {
    assert.ok((await pValue(response, 2, 2, 100000)) > FALSE_ALARM);
    assert.ok((await pValue(response, 2, 1.8, 20000)) < FALSE_ALARM);
    assert.ok((await pValue(response, 1.8, 2, 20000)) < FALSE_ALARM);
  });
}
