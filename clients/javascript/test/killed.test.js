/** Devices that are killed at any moment: never more reports than the cap, never two texts under one id. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { FolderBox } from "../src/folder.js";
import { Store } from "../src/store.js";
import { canonical } from "../src/words.js";
import { Stub } from "./helpers/toy.js";

const CAP = 30;
const PROGRAM = fileURLToPath(new URL("helpers/device-process.js", import.meta.url));

async function start(folder) {
  const child = spawn(process.execPath, [PROGRAM, folder], { stdio: ["ignore", "pipe", "inherit"] });
  const said = child.stdout.setEncoding("utf8")[Symbol.asyncIterator]();
  let text = (await said.next()).value ?? "";
  const ended = new Promise((resolve) => child.on("close", resolve));
  return { child, ended, rest: async () => {
    for (let piece = await said.next(); !piece.done; piece = await said.next()) text += piece.value;
    return text;
  } };
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
  for (let i = 0; i < 7; i++) {
    const { child, ended } = await start(folder);
    await new Promise((resolve) => setTimeout(resolve, 3 + 9 * i));
    child.kill("SIGKILL");
    await ended;
  }
  assert.equal(await (await start(folder)).rest(), "ready\nover\n");
  const texts = new Map();
  for (const line of readFileSync(join(folder, "sent"), "utf8").trim().split("\n")) {
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
  const both = await Promise.all([start(folder), start(folder)]);
  for (const each of both) assert.match(await each.rest(), /^ready\nover\n$/);
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
