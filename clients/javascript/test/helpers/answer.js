/** Answers questions of another program, line by line: canonical texts, whether laws keep an epsilon, shuffled messages. */
import { readFileSync } from "node:fs";
import { Refused } from "../../src/errors.js";
import { Tape, exactly, given } from "../../src/exact.js";
import { keeps } from "../../src/laws.js";
import { readRound } from "../../src/reports.js";
import { shuffledMessages } from "../../src/shuffled.js";
import { Float, canonical, parse, unhex } from "../../src/words.js";
import { readToy } from "./toy.js";

const asked = {
  messages: async (text) => {
    const { study: answer, policy, record, tape } = parse(text);
    const study = await readToy(answer);
    const round = await readRound(policy, study);
    const source = given(unhex(tape));
    const plain = record.map((step) => step.map((value) => (value instanceof Float ? value.value : value)));
    return JSON.stringify([shuffledMessages(study, round, plain, new Tape(source)), source.read, round.terms]);
  },
  taken: async (text) => {
    const { study, policy } = parse(text);
    try {
      await readRound(policy, await readToy(study));
      return true;
    } catch (error) {
      if (error instanceof Refused) return false;
      throw error;
    }
  },
  canonical: (text) => canonical(parse(text)),
  keeps: (text) => {
    const [items, threshold, response, epsilon, parts] = JSON.parse(text);
    const [mantissa, power] = exactly(epsilon);
    return keeps({ items, threshold: BigInt(threshold) }, response, [mantissa, BigInt(parts) << -power]);
  },
};
// By hand: from Node 24 on readline ends a line at U+2028, too.
for (const line of readFileSync(0, "utf8").split("\n").slice(0, -1)) console.log(String(await asked[process.argv[2]](line)));
