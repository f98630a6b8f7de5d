/** A million reports against their exact law, and a law of an epsilon that is less by 0.1, which must be told apart. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { FALSE_ALARM, pValue } from "../helpers/chance.js";

for (const response of ["kary", "unary"]) {
  test(`a million reports (${response}) have the exact law; one false alarm in 10^9`, async () => {
    assert.ok((await pValue(response, 2, 2, 1000000)) > FALSE_ALARM);
    assert.ok((await pValue(response, 2, 1.9, 300000)) < FALSE_ALARM);
  });
}
