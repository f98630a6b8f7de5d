/** Devices that are killed at any moment: never more reports than the cap, never two texts under one id. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs, { mkdtempSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { FolderBox } from "../src/folder.js";
import { Store } from "../src/store.js";
import { canonical } from "../src/words.js";
import { Stub } from "./helpers/toy.js";

const CAP = 20;
const STEPS = Array.from({ length: 14 }, (_, i) => 3 * i); // a report takes about thirty: all over it, and into the next
const PROGRAM = fileURLToPath(new URL("helpers/device-process.js", import.meta.url));

/** Run a device to its end; gives what it said, and the signal that has ended it. */
function run(folder, ...steps) {
  const child = spawn(process.execPath, [PROGRAM, folder, ...steps.map(String)], { stdio: ["ignore", "pipe", "inherit"] });
  let said = "";
  child.stdout.setEncoding("utf8").on("data", (piece) => (said += piece));
  return new Promise((resolve) => child.on("close", (_, signal) => resolve([said, signal])));
}

async function prepared() {
  const folder = mkdtempSync(join(tmpdir(), "killed-"));
  const stub = await Stub.make({ cap: CAP, epsilon: 80 });
  await stub.openRound();
  const answers = { hash: stub.study.hash, "/v1/study": canonical(stub.answer), "/v1/policy": canonical(stub.rounds[0]) };
  writeFileSync(join(folder, "answers.json"), JSON.stringify(answers));
  return [folder, stub];
}

test("a device that is killed sends each report once and as it was", async () => {
  const [folder, stub] = await prepared();
  for (const steps of STEPS) assert.deepEqual(await run(folder, steps), ["", "SIGKILL"]);
  assert.deepEqual(await run(folder), ["over\n", null]);
  const texts = new Map();
  const lines = readFileSync(join(folder, "sent"), "utf8").trim().split("\n");
  assert.ok(lines.length > CAP); // some were sent twice, because the answer to the first was lost with the device
  for (const line of lines) {
    const { id } = JSON.parse(line);
    assert.equal(texts.get(id) ?? line, line, "another text under the same id");
    texts.set(id, line);
  }
  assert.equal(texts.size, CAP); // all of them, those of killed episodes as the empty record, and no more
  const store = new Store(new FolderBox(join(folder, "store")), stub.study.hash);
  assert.deepEqual([await store.count(), await store.waiting()], [CAP, []]);
  assert.equal(readdirSync(join(folder, "store")).length, 1);
});

test("two devices with one store count together", async () => {
  const [folder] = await prepared();
  for (const each of await Promise.all([run(folder), run(folder)])) assert.deepEqual(each, ["over\n", null]);
  const ids = readFileSync(join(folder, "sent"), "utf8").trim().split("\n").map((line) => JSON.parse(line).id);
  assert.equal(new Set(ids).size, CAP);
});

test("a change that others have overtaken is made again from their state", async () => {
  const folder = mkdtempSync(join(tmpdir(), "store-"));
  const box = new FolderBox(folder);
  await box.change((state) => (state.count = 1));
  let overtaken = false;
  await box.change((state) => {
    if (!overtaken) writeFileSync(join(folder, "3.json"), JSON.stringify({ count: 7 })); // two changes of somebody else; 2 is gone
    overtaken = true;
    state.count++;
  });
  assert.equal(await box.change((state) => state.count), 8);
  assert.deepEqual(readdirSync(folder), ["4.json"]);
});

test("a state is on the disk before it gets its number, and its name after that", async (t) => {
  const [order, { open, link }] = [[], fs.promises];
  const noting = (what, work) => (...all) => (order.push(what), work(...all));
  const opening = async (...all) => {
    const file = await open(...all);
    file.sync = noting("sync", file.sync.bind(file));
    file.writeFile = noting("write", file.writeFile.bind(file));
    return file;
  };
  Object.assign(fs.promises, { open: opening, link: noting("link", link) });
  syncBuiltinESMExports();
  t.after(() => (Object.assign(fs.promises, { open, link }), syncBuiltinESMExports()));
  await new FolderBox(mkdtempSync(join(tmpdir(), "store-"))).change((state) => (state.count = 1));
  assert.deepEqual(order, ["write", "sync", "link", "sync"]);
});

test("stores refuse more than the cap and changes after the first attempt", async () => {
  const store = new Store(new FolderBox(mkdtempSync(join(tmpdir(), "store-"))), "study");
  for (const [number, noted] of [[0, true], [1, true], [2, false]]) {
    assert.equal(await store.begin(2, { id: `${number}`, due: 0, body: "empty", state: "open" }), noted);
  }
  assert.deepEqual([await store.settle("0", "real"), await store.settle("0", "other"), await store.settle("9", "")], [true, false, false]);
  assert.deepEqual([await store.fix("0"), await store.fix("1"), await store.fix("2")], ["real", "empty", null]);
  assert.equal(await store.settle("1", "too late"), false);
  await store.close("0", "done");
  assert.equal(await store.fix("0"), null);
  assert.deepEqual((await store.waiting()).map((row) => row.id), ["1"]);
  assert.equal(await store.count(), 2);
});
