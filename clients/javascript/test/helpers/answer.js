/** Answers questions of another program, line by line: canonical texts, and whether laws keep an epsilon. */
import { createInterface } from "node:readline";
import { exactly } from "../../src/exact.js";
import { keeps } from "../../src/laws.js";
import { canonical, parse } from "../../src/words.js";

const asked = {
  canonical: (text) => canonical(parse(text)),
  keeps: (text) => {
    const [items, threshold, response, epsilon, parts] = JSON.parse(text);
    const [mantissa, power] = exactly(epsilon);
    return keeps({ items, threshold: BigInt(threshold) }, response, [mantissa, BigInt(parts) << -power]);
  },
};
for await (const line of createInterface({ input: process.stdin })) console.log(String(asked[process.argv[2]](line)));
