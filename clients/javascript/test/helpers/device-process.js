/** A device in a process of its own, for tests that kill it: it notes every attempt to send in a file, synced, first. */
import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { Device, Refused } from "../../src/index.js";

const folder = process.argv[2];
const answers = JSON.parse(readFileSync(join(folder, "answers.json"), "utf8"));
const bytes = (text) => new TextEncoder().encode(text);

/** A service made of files. */
const noted = {
  private: true,
  async ask(method, path, body) {
    if (method === "GET") return { status: 200, body: bytes(answers[path]) };
    const file = openSync(join(folder, "sent"), "a");
    writeSync(file, `${body}\n`);
    fsyncSync(file);
    closeSync(file);
    return { status: 200, body: bytes('{"status": "accepted"}') };
  },
};

const device = new Device(noted, { studyHash: answers.hash, store: join(folder, "store"), signatures: false, atOnce: true });
console.log("ready");
await device.send(); // at every start what is due is sent first
try {
  for (;;) {
    await device.begin();
    for (let step = 0; step < device.horizon; step++) device.record(step, 0, device.act(step, 0), 1);
    await device.report();
  }
} catch (error) {
  if (!(error instanceof Refused)) throw error;
  console.log("over");
}
