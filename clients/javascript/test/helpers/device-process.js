/**
 * A device in a process of its own, which takes part, and notes every attempt to send in a file, synced, first.
 *
 *     node device-process.js FOLDER [STEPS]
 *
 * After so many steps it kills itself. A step is taken before every change of a file: those of the store, and of what was
 * sent. So a test chooses the moment, and no clock does.
 */
import fs, { closeSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";

const [folder, number] = process.argv.slice(2);
let left = number === undefined ? Infinity : Number(number);
const step = () => {
  if (left-- <= 0) process.kill(process.pid, "SIGKILL");
};
for (const name of ["open", "link", "rm"]) {
  const real = fs.promises[name];
  fs.promises[name] = (...all) => (step(), real(...all));
}
syncBuiltinESMExports();
const { Device, Refused } = await import("../../src/index.js");

const answers = JSON.parse(readFileSync(join(folder, "answers.json"), "utf8"));
const bytes = (text) => new TextEncoder().encode(text);

/** A service made of files. */
const noted = {
  private: true,
  async ask(method, path, body) {
    if (method === "GET") return { status: 200, body: bytes(answers[path]) };
    step();
    const file = openSync(join(folder, "sent"), "a");
    writeSync(file, `${body}\n`);
    fsyncSync(file);
    closeSync(file);
    step();
    return { status: 200, body: bytes('{"status": "accepted"}') };
  },
};

const device = new Device(noted, { studyHash: answers.hash, store: join(folder, "store"), signatures: false, atOnce: true });
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
