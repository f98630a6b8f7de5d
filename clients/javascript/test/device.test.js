/** A device: what it agrees to, what it refuses, and what it sends, through crashes and lost answers. */
import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Device, MemoryBox, Refused, Rejected, Unreachable } from "../src/index.js";
import { platformVerify } from "../src/heads.js";
import { perStep } from "../src/study.js";
import { Connection } from "../src/transport.js";
import { Float, canonical, digest } from "../src/words.js";
import { Stub, json, lawsOf, readToy, threshold } from "./helpers/toy.js";

const folder = () => mkdtempSync(join(tmpdir(), "device-"));
const deviceOf = (stub, options = {}) =>
  new Device(stub, { studyHash: stub.study.hash, store: ":memory:", atOnce: true, ...options });

async function opened(options) {
  const stub = await Stub.make(options);
  await stub.openRound();
  return stub;
}

function live(device, reward = 0.5) {
  for (let step = 0; step < device.horizon; step++) {
    const state = step && step % 3;
    device.record(step, state, device.act(step, state), reward);
  }
}

async function finished(stub, options) {
  const device = deviceOf(stub, options);
  await device.begin();
  live(device);
  await device.finish();
  return device;
}

const refuses = (promise, words, kind = Refused) =>
  assert.rejects(promise, (error) => {
    assert.ok(error instanceof kind, error.stack);
    assert.match(error.message, words);
    return true;
  });

for (const [response, steps] of [["kary", 1], ["unary", 2]]) {
  test(`an episode ends in one report of the agreed form (${response})`, async () => {
    const stub = await opened({ response, steps });
    const device = await finished(stub);
    const [waits] = await device.waiting();
    assert.equal(await device.send(), 0);
    const [sent] = stub.sent;
    assert.deepEqual(waits.body, sent);
    assert.equal(sent.study, stub.study.hash);
    assert.equal(sent.round, 0);
    assert.match(sent.id, /^[0-9a-f]{32}$/);
    assert.equal(sent.report.steps.length, steps);
    sent.report.steps.forEach((h, i) => {
      const { items } = stub.rounds[0].laws[h];
      if (response === "kary") assert.ok(sent.report.items[i] >= 0 && sent.report.items[i] < items);
      else assert.match(sent.report.bits[i], new RegExp(`^[01]{${items}}$`));
    });
  });
}

test("central records hold bits of rewards and the end", async () => {
  let ones = 0;
  for (let i = 0; i < 200; i++) {
    const stub = await opened({ model: "central", earlyEnd: true, rewards: [0, 4] });
    const device = deviceOf(stub);
    await device.begin();
    device.record(0, 0, 0, 1);
    device.record(1, 2, 0, 4);
    await device.report();
    const [first, second, ...rest] = stub.sent[0].report.steps;
    assert.deepEqual([first.slice(0, 2), second, rest], [[0, 0], [2, 0, 1], [[-1, -1, -1], [-1, -1, -1]]]);
    ones += first[2];
  }
  assert.ok(ones > 15 && ones < 90); // 50 expected; 6 standard deviations either way
});

test("labels go in and come out", async () => {
  const stub = await Stub.make({ states: ["calm", "busy"], actions: ["wait", "nudge"], start: "calm", horizon: 2 });
  await stub.openRound({ kind: "deterministic", actions: [[1, 0], [0, 1]] });
  const device = deviceOf(stub);
  await device.begin();
  assert.deepEqual([device.act(0, "calm"), device.act(0, 0)], ["nudge", 1]);
  device.record(0, "calm", "nudge", 1);
  device.record(1, 1, 1, 0.25);
  assert.equal(await device.report(), 0);
  assert.equal(stub.received.size, 1);
});

test("a stochastic policy is followed by its probabilities", async () => {
  const stub = await Stub.make({ response: "unary", states: 1, horizon: 1 });
  const { Float } = await import("../src/words.js");
  await stub.openRound({ kind: "stochastic", probabilities: [[[new Float(0.25), new Float(0.75)]]] });
  const device = deviceOf(stub);
  await device.begin();
  let ones = 0;
  for (let i = 0; i < 4000; i++) ones += device.act(0, 0);
  assert.ok(Math.abs(ones - 3000) < 170); // 6 standard deviations: a false alarm once in 10^9
});

test("what cannot be counted is not recorded, and no reward is quoted", async () => {
  const stub = await opened();
  const device = deviceOf(stub);
  assert.throws(() => device.act(0, 0), /begin/);
  assert.throws(() => device.horizon, /not known yet/);
  await device.begin();
  await refuses(device.begin(), /begun already/);
  for (const [step, state, action, words] of [[1, 0, 0, /in order/], [0, 1, 0, /start state/], [0, 0, 1, /does not take this/]]) {
    assert.throws(() => device.record(step, state, action, 0), words);
  }
  for (const state of [3, -1, "calm", 0.5, true, null, undefined]) {
    assert.throws(() => device.act(0, state), /state must be a number in 0\.\.2/);
  }
  for (const reward of [NaN, Infinity, -0.001, 1.0000001, "1", null, true, 1n]) {
    assert.throws(() => device.record(0, 0, 0, reward), (error) => /from 0 to 1,/.test(error.message) && !/0000001/.test(error.message));
  }
  await refuses(device.finish(), /no early ends/);
});

test("the cap is kept over restarts, in files of the owner alone", async () => {
  const [stub, store] = [await opened({ cap: 2 }), folder()];
  for (let i = 0; i < 2; i++) await (await finished(stub, { store })).send();
  await refuses(deviceOf(stub, { store }).begin(), /the 2 reports that the study allows/);
  assert.equal(await deviceOf(stub, { store }).reports(), 2);
  const files = readdirSync(store);
  assert.equal(files.length, 1);
  assert.equal(statSync(join(store, files[0])).mode & 0o777, 0o600);
});

test("two devices at once do not exceed the cap", async () => {
  const [stub, store] = [await opened(), folder()];
  const begun = await Promise.allSettled(Array.from({ length: 6 }, () => deviceOf(stub, { store }).begin()));
  assert.equal(begun.filter((each) => each.status === "fulfilled").length, 1);
  assert.equal(await deviceOf(stub, { store }).reports(), 1);
});

test("a lost answer leads to the same bytes again, which were stored before the first attempt", async () => {
  const [stub, store] = [await opened(), folder()];
  const device = await finished(stub, { store });
  [stub.failing, stub.deaf] = [1, 2];
  for (let i = 0; i < 3; i++) await refuses(device.send(), /lost/, Unreachable);
  const kept = JSON.parse(readFileSync(join(store, readdirSync(store)[0]), "utf8"))[stub.study.hash].reports[0];
  assert.deepEqual([kept.body, kept.state], [stub.bodies[0], "sending"]);
  const again = deviceOf(stub, { store }); // the app was closed meanwhile
  assert.equal(await again.send(), 0);
  assert.equal(stub.bodies.length, 3);
  assert.equal(new Set(stub.bodies).size, 1);
  assert.equal(await again.send(), 0);
  assert.equal(stub.bodies.length, 3);
  assert.ok(!readFileSync(join(store, readdirSync(store)[0]), "utf8").includes(stub.bodies[0]));
});

test("a refused report is used up", async () => {
  for (const status of [400, 403, 404, 409, 410, 413]) {
    const stub = await opened();
    const device = await finished(stub);
    stub.refuse = status;
    await refuses(device.send(), /late/, Rejected);
    assert.equal(await device.send(), 0);
    await refuses(device.begin(), /allows/);
  }
});

test("a busy service is tried again, with the same bytes", async () => {
  for (const status of [0, 301, 401, 429, 500, 503]) {
    const stub = await opened();
    const device = await finished(stub);
    stub.refuse = status || 1;
    await refuses(device.send(), /try again/, Unreachable);
    stub.refuse = null;
    await device.send();
    assert.equal(new Set(stub.bodies).size, 1);
  }
});

test("whoever answers in place of the service uses up nothing", async () => {
  for (const [status, body] of [[200, "<html>Welcome to our hotel</html>"], [200, "{}"], [404, "<html>nginx</html>"], [410, '{"error": 1}']]) {
    const stub = await opened();
    const device = await finished(stub);
    stub.respond = () => json(status, body);
    await refuses(device.send(), /something else than the service/, Unreachable);
    delete stub.respond;
    await device.send();
    assert.equal(stub.received.size, 1);
  }
});

test("the time of the report is drawn before, spread over the window, and kept", async () => {
  const [stub, store] = [await opened({ window: "10m" }), folder()];
  let now = 1000;
  const options = { store, atOnce: false, clock: () => now };
  const device = deviceOf(stub, options);
  const due = await device.begin();
  assert.ok(due >= 1000 && due < 1600);
  live(device);
  assert.equal(await device.finish(), due);
  now = due - 1;
  assert.equal(await device.send(), due > 1000 ? 1 : 0);
  now = due;
  assert.equal(await deviceOf(stub, options).send(), 0);
  assert.equal(stub.received.size, 1);
  now = 1000;
  const drawn = [];
  for (let i = 0; i < 300; i++) drawn.push(await deviceOf(stub, { ...options, store: ":memory:" }).begin());
  const counts = [0, 1, 2].map((third) => drawn.filter((time) => Math.floor((time - 1000) / 200) === third).length);
  assert.ok(counts.every((count) => count > 45)); // 100 expected, 6.7 standard deviations
});

test("an unfinished episode sends the empty record at its time", async () => {
  for (const how of ["crash", "abandon", "too slow"]) {
    const [stub, store] = [await opened({ model: "central", window: "10m" }), folder()];
    let now = 1000;
    const options = { store, atOnce: false, clock: () => now };
    let device = deviceOf(stub, options);
    const due = await device.begin();
    device.record(0, 0, 0, 1);
    if (how === "abandon") assert.equal(device.abandon(), due);
    if (how === "crash") device = deviceOf(stub, options);
    now = due;
    assert.equal(await device.send(), 0);
    assert.deepEqual(stub.sent[0].report.steps, Array(4).fill([-1, -1, -1]));
    if (how === "too slow") {
      for (let step = 1; step < 4; step++) device.record(step, 0, 0, 1);
      await refuses(device.finish(), /left already/);
      assert.equal(stub.bodies.length, 1);
    }
  }
});

test("raw records are never written before they are reports", async () => {
  const [stub, store] = [await opened({ model: "central" }), folder()];
  const device = deviceOf(stub, { store });
  await device.begin();
  const content = () => readdirSync(store).map((name) => readFileSync(join(store, name), "utf8"));
  const before = content();
  live(device);
  assert.deepEqual(content(), before);
});

test("a planned visit is not early", async () => {
  const [stub, store] = [await opened(), folder()];
  let now = 1000;
  const options = { store, clock: () => now };
  const when = await deviceOf(stub, options).plan("1h");
  assert.ok(when >= 1000 && when <= 4600);
  assert.equal(await deviceOf(stub, options).plan("1h"), when);
  now = when - 1;
  await refuses(deviceOf(stub, options).begin(), /has not come yet/);
  now = when;
  await deviceOf(stub, options).begin();
  await refuses(deviceOf(stub, options).plan("soon"), /30m or 1h/);
  now = when + 10000;
  assert.ok((await deviceOf(stub, options).plan("1h")) >= now); // what was planned is over
  const drawn = new Set();
  for (let i = 0; i < 20; i++) drawn.add(await deviceOf(stub, { clock: () => now }).plan("1h"));
  assert.ok(drawn.size > 10); // of 3,601 times: a false alarm once in 10^30
});

test("what waits for its episode is not sent before it, and every id is drawn anew", async () => {
  const stub = await opened({ cap: 2 });
  const draws = [];
  const entropy = (count) => {
    const bytes = crypto.getRandomValues(new Uint8Array(count));
    draws.push(Buffer.from(bytes).toString("hex"));
    return bytes;
  };
  const device = deviceOf(stub, { entropy });
  await device.begin();
  assert.equal(await device.send(), 1);
  assert.equal(stub.bodies.length, 0);
  live(device);
  assert.equal(await device.report(), 0);
  await device.begin();
  live(device);
  await device.report();
  const ids = stub.sent.map(({ id }) => id);
  assert.equal(new Set(ids).size, 2);
  for (const id of ids) assert.ok(draws.includes(id)); // sixteen bytes of the system's own
});

test("requests carry no cookies and no address of the page, follow nobody elsewhere, and read no more than a device can hold", async (t) => {
  const asked = [];
  const { mock } = t.mock.method(globalThis, "fetch", (url, options) => (asked.push([url, options]), Promise.resolve(new Response("{}"))));
  await new Connection("https://a.example/base/").ask("POST", "/v1/reports", "body", "token");
  const [[url, { signal, ...options }]] = asked;
  assert.equal(url, "https://a.example/base/v1/reports");
  assert.ok(signal instanceof AbortSignal);
  assert.deepEqual(options, {
    method: "POST", body: "body", headers: { "Content-Type": "application/json", Authorization: "Bearer token" }, redirect: "manual",
    cache: "no-store", credentials: "omit", referrerPolicy: "no-referrer",
  });
  const piece = new Uint8Array(1 << 22);
  const endless = () => new Response(new ReadableStream({ pull: (stream) => stream.enqueue(piece) }));
  mock.mockImplementation(() => Promise.resolve(endless()));
  await refuses(new Connection("https://a.example").ask("GET", "/v1/policy"), /too large for a device/);
});

test("a reporting window of no length is refused in one sentence, as the service does", async () => {
  await refuses(Stub.make({ window: "0s" }), /30m or 1h/);
});

test("declarations and policies that a device cannot follow are refused", async () => {
  for (const [options, words] of [
    [{ states: ["calm", "calm"], start: null }, /labels of states are the same/],
    [{ rewards: [1, 1] }, /the smaller first/],
    [{ states: 2000, actions: 2000 }, /too large for a device/],
  ]) await refuses(Stub.make(options), words);
  const { Float } = await import("../src/words.js");
  const stub = await Stub.make({ states: 1, horizon: 1 });
  for (const law of [[0.5, 0.6], [-0.5, 1.5], [1], ["1", 0]]) {
    const row = law.map((share) => (typeof share === "number" ? new Float(share) : share));
    await refuses(stub.openRound({ kind: "stochastic", probabilities: [[row]] }), /probabilities/);
  }
});

test("another study than the agreed one is refused", async () => {
  const stub = await opened();
  const other = `sha256:${"1".repeat(64)}`;
  await refuses(deviceOf(stub, { studyHash: other }).begin(), /not the study that was agreed to/);
  stub.answer.study.privacy.epsilon.value = 40;
  await refuses(deviceOf(stub).begin(), /not the study that was agreed to/);
  for (const studyHash of ["", "sha256:12", `sha256:${"G".repeat(64)}`, `md5:${"0".repeat(64)}`, undefined]) {
    assert.throws(() => deviceOf(stub, { studyHash }), /64 hexadecimal digits/);
  }
});

test("reports that would show more than was agreed are refused", async () => {
  for (const [change, words] of [
    [{ response: "plain" }, /kary or unary response/], [{ kind: "record" }, /does not send reports of kind/], [{ early_end: true }, /may end early/],
    [{ kind: "noisy-table" }, /does not send reports of kind/], [{ steps: 5 }, /between 1 and 4/], [{ steps: true }, /whole number/], [{ masked: 1 }, /true or false/],
  ]) {
    const stub = await opened();
    Object.assign(stub.answer.report, change);
    const device = deviceOf(stub);
    await refuses(device.begin(), words);
    assert.deepEqual([await device.reports(), stub.bodies.length], [0, 0]);
  }
});

test("rounds that are not as agreed are refused, and nothing is sent", async () => {
  const fewer = (lie) => String((BigInt(lie) * 99n) / 100n);
  for (const [change, words] of [
    [(a) => (a.laws[1].items += 1), /the service counts/],
    [(a) => (a.laws[1].lie = fewer(a.laws[1].lie)), /does not keep epsilon 2,/],
    [(a) => a.laws.pop(), /3 laws for 4 steps/],
    [(a) => a.policy.actions.pop(), /must have 4 steps/],
    [(a) => (a.policy.actions[0] = [0, 0, 0, 0]), /3 states/],
    [(a) => (a.policy.actions = Array(4).fill([2, 0, 0])), /does not have/],
    [(a) => (a.policy.kind = "mixture"), /policies of kind/],
    [(a) => (a.policy.actions = Array(4).fill([1, 1, 1])), /not the one that its signed head names/],
    [(a) => (a.study = "sha256:0"), /another study/],
    [(a) => (a.round = 7), /not the one that its signed head names/],
    [(a) => (a.head.round = 7), /signature/],
    [(a) => (a.head.signature = "00"), /signature/],
    [(a) => (a.head.key = "0".repeat(64)), /another study/],
  ]) {
    const stub = await opened();
    change(stub.rounds[0]);
    const device = deviceOf(stub);
    await refuses(device.begin(), words);
    assert.deepEqual([await device.reports(), stub.bodies.length], [0, 0]);
  }
});

test("epsilon is shared by all reports and their steps; half of the lies is noticed", async () => {
  for (const response of ["kary", "unary"]) {
    for (const [cap, steps] of [[1, 1], [2, 1], [1, 3], [3, 2]]) {
      const stub = await opened({ response, steps, cap });
      await deviceOf(stub).begin();
      const [whole, parts] = perStep(stub.study);
      for (const fewer of [(cap - 1) * steps, cap * (steps - 1)].filter(Boolean)) {
        stub.rounds[0].laws = lawsOf(stub.study, stub.rounds[0].policy, [whole, (parts * BigInt(fewer)) / BigInt(cap * steps)]);
        await refuses(deviceOf(stub).begin(), /does not keep epsilon/);
      }
    }
  }
  const stub = await opened();
  for (const law of stub.rounds[0].laws) law.lie = String(threshold(law.items, "kary", [4n, 1n]));
  await refuses(deviceOf(stub).begin(), /does not keep epsilon 2,/);
});

test("the chain is followed over rounds that were missed", async () => {
  const [stub, store] = [await Stub.make({ cap: 3 }), folder()];
  for (const rounds of [1, 1, 9]) {
    for (let i = 0; i < rounds; i++) await stub.openRound();
    const device = deviceOf(stub, { store });
    await device.begin();
    device.abandon();
  }
  assert.equal(await deviceOf(stub, { store }).reports(), 3);
});

test("an older round and a broken chain are refused", async () => {
  const stub = await Stub.make({ cap: 3 });
  for (let i = 0; i < 3; i++) await stub.openRound();
  const device = deviceOf(stub);
  await device.begin();
  device.abandon();
  const later = stub.rounds.pop();
  await refuses(device.begin(), /lost rounds or shows an old one/);
  stub.rounds.push(later);
  await stub.openRound();
  stub.rounds[3].head = await stub.head(stub.rounds[3].policy, 3, "sha256:elsewhere");
  await refuses(device.begin(), /broken before round 3/);
  assert.deepEqual(await device.evidence(), []);
});

test("two heads of one round are kept as evidence", async () => {
  for (const later of [false, true]) {
    const [stub, store] = [await Stub.make({ cap: 3 }), folder()];
    for (let i = 0; i < 2; i++) await stub.openRound();
    const device = deviceOf(stub, { store });
    await device.begin();
    device.abandon();
    const seen = stub.rounds.pop().head;
    const other = (await stub.openRound({ kind: "deterministic", actions: Array(4).fill([0, 1, 0]) })).head;
    if (later) await stub.openRound(); // the other view is hidden below a later round
    await refuses(device.begin(), /two different heads for round 1/);
    assert.deepEqual(await deviceOf(stub, { store }).evidence(), [[seen, other]]);
    assert.notEqual(canonical(seen), canonical(other));
    assert.equal(await device.reports(), 1);
  }
});

test("a chain that is listed otherwise than it was signed is refused, and is no evidence against anybody", async () => {
  const forged = (head) => ({ ...head, policy: `sha256:${"0".repeat(64)}` });
  for (const [listed, words] of [
    [([zero, one, two, three]) => [zero, two, one, three], /out of order/],
    [([first, ...rest]) => [forged(first), ...rest], /signature/],
    [(heads) => heads.map((head) => (head.round === 3 ? forged(head) : head)), /does not lead to the policy of this round/],
  ]) {
    const stub = await Stub.make({ cap: 3 });
    await stub.openRound();
    const device = deviceOf(stub);
    await device.begin();
    device.abandon();
    for (let i = 0; i < 3; i++) await stub.openRound();
    const respond = stub.respond.bind(stub);
    stub.respond = (method, path, body) => {
      if (!path.startsWith("/v1/heads")) return respond(method, path, body);
      const first = Number(path.split("=")[1]);
      return json(200, { heads: listed(stub.rounds.map((each) => each.head).filter((head) => head.round >= first)) });
    };
    await refuses(device.begin(), words);
    assert.deepEqual([await device.evidence(), await device.reports()], [[], 1]);
    delete stub.respond;
    await device.begin(); // nothing was lost by it
  }
});

test("a study that could not be fetched is fetched again", async () => {
  const stub = await opened();
  const device = deviceOf(stub);
  stub.failing = 1;
  await refuses(device.study(), /lost/, Unreachable);
  assert.equal((await device.study()).hash, stub.study.hash);
});

test("a key that is none has signed nothing", async () => {
  assert.equal(await platformVerify(new Uint8Array(31), new Uint8Array(64), new Uint8Array(1)), false);
});

test("without Ed25519 on the platform the remedies are named, and work", async (t) => {
  const stub = await opened();
  const missing = () => Promise.reject(new DOMException("no such algorithm", "NotSupportedError"));
  t.mock.method(crypto.subtle, "importKey", missing);
  await refuses(deviceOf(stub).begin(), /give Device a function 'verify'.*or signatures: false/);
  await deviceOf(stub, { signatures: false }).begin();
  const asked = [];
  await deviceOf(stub, { verify: (...all) => asked.push(all) > 0 }).begin();
  assert.deepEqual(asked[0].map((each) => each.length).slice(0, 2), [32, 64]);
  await refuses(deviceOf(stub, { verify: () => false }).begin(), /signature/);
});

test("records do not travel in the clear, and addresses are addresses", async () => {
  const stub = await opened({ model: "central" });
  stub.private = false;
  await refuses(deviceOf(stub).begin(), /https/);
  const local = await opened();
  local.private = false;
  await refuses(deviceOf(local, { token: "abc" }).begin(), /over http .* invitation/);
  await deviceOf(local).begin(); // what is randomised may be read by anybody
  const isPrivate = (url) => new Connection(url).private;
  assert.deepEqual(["http://study.example.org", "https://a/b", "http://127.0.0.1:80", "http://[::1]:8"].map(isPrivate), [false, true, true, true]);
  for (const url of ["study.example.org", "ftp://a", "http://", "https://a?b=c", "http://a:x", "http://[a", "https://me:pw@a"]) {
    assert.throws(() => new Connection(url), /address of a service/, url);
  }
});

test("nobody there is unreachable; tokens are one line and travel with reports only", async () => {
  const nobody = new Device("http://127.0.0.1:1", { studyHash: `sha256:${"0".repeat(64)}`, store: ":memory:" });
  await refuses(nobody.begin(), /cannot be reached/, Unreachable);
  const stub = await opened();
  for (const token of ["", "a\nb", "ä", "x".repeat(201)]) assert.throws(() => deviceOf(stub, { token }), /token/);
  await (await finished(stub, { token: "abc" })).send();
  assert.deepEqual(stub.tokens, [null, null, "abc"]);
});

test("stores that are none are refused, and any box can be one", async () => {
  const stub = await opened();
  const store = folder();
  const { writeFileSync } = await import("node:fs");
  writeFileSync(join(store, "3.json"), "nothing of the kind");
  await refuses(deviceOf(stub, { store }).begin(), /cannot be used as one/);
  await refuses(deviceOf(stub, { store: join(store, "3.json") }).begin(), /cannot be used as one/);
  const box = new MemoryBox();
  await finished(stub, { store: box });
  await refuses(deviceOf(stub, { store: box }).begin(), /allows/);
});

const BITS = { kind: "answered-bits", layout: "joint", groups: 1, masked: true, early_end: false, first_visits: false };

/** A shuffled study: nothing of it reaches the coordinator but requests for study, policy and heads. */
async function shuffledStub(address = "", alone = "none") {
  const stub = await Stub.make({ model: "shuffle", address, alone });
  Object.assign(stub.answer.report, BITS);
  stub.study = await readToy(stub.answer);
  await stub.openRound();
  Object.assign(stub.rounds[0], { laws: [{ items: 3 * 2 * 4, lie: String((1n << 61n) - 5n) }], wanted: 9 });
  return stub;
}

/** In place of HPKE: the message in the clear, in 52 bytes. */
const inTheClear = async (key, info, contents) => contents.map((content) => Uint8Array.of(...Array(48).fill(0), ...content));

test("messages of a shuffled study go to the shuffler, sealed one by one, bound to study and round", async () => {
  const [stub, shuffler] = [await shuffledStub(), await Stub.make()];
  const asked = [];
  const seal = (...all) => (asked.push(all), inTheClear(...all));
  await (await finished(stub, { shuffler, seal })).send();
  assert.equal(stub.bodies.length, 0);
  const [sent] = shuffler.sent;
  assert.deepEqual(Object.keys(sent).sort(), ["head", "id", "messages", "policy", "round", "study", "terms"]);
  assert.equal(sent.policy, stub.rounds[0].head.policy);
  assert.equal(sent.head, await digest(stub.rounds[0].head));
  assert.equal(sent.terms, await digest({ laws: stub.rounds[0].laws, users: 9, report: await digest(stub.answer.report) }));
  assert.deepEqual(sent.messages.map((text) => Buffer.from(text, "base64url").readUInt32LE(48) >> 1), [...Array(24).keys()]);
  assert.equal(Buffer.from(asked[0][1]).toString(), `discreet message 1\n${stub.study.hash}\n0`);
  assert.equal(Buffer.from(asked[0][0]).toString("hex"), stub.answer.study.keys.sealing);
});

test("shuffled studies that do not say what is left if both parties act together are refused", async () => {
  for (const alone of ["", 0]) await refuses(shuffledStub("", alone), /act together \(local_epsilon in \[shuffle\]\): nothing is sent/);
  const begun = async (alone) => deviceOf(await shuffledStub("", alone), { seal: inTheClear }).begin();
  await refuses(begun("all"), /'local_epsilon' must be a number/);
  await refuses(begun(new Float(-1)), /does not keep epsilon/);
  await begun(new Float(1e-9)); // bits that are almost coins
});

test("shuffled studies are refused without an address, over http, or with another law than one for all counters", async () => {
  const seal = inTheClear;
  await refuses((await finished(await shuffledStub(), { seal })).send(), /shuffler: ADDRESS/);
  const open = await shuffledStub("http://shuffler.example.org");
  await refuses((await finished(open, { seal })).send(), /take the https address/);
  for (const change of [(laws) => laws.push(laws[0]), (laws) => (laws[0].items = 23), (laws) => (laws[0].lie = String((1n << 61n) + 1n)), (laws) => (laws[0].lie = "0")]) {
    const stub = await shuffledStub();
    change(stub.rounds[0].laws);
    await refuses(deviceOf(stub, { seal }).begin(), /one law for the 24 numbers/);
  }
  for (const [change, words] of [[{ layout: "heap" }, /layout of joint or tables or two-tables,/], [{ groups: 2 }, /number of groups/], [{ kind: "record" }, /does not send/], [{ first_visits: 1 }, /true or false/]]) {
    const stub = await shuffledStub();
    Object.assign(stub.answer.report, change);
    await refuses(deviceOf(stub, { seal }).begin(), words);
  }
});
