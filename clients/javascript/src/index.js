/**
 * What runs on a person's device: take the policy of a study, live an episode, send one report of it. No dependency.
 *
 * - words: the JSON of the service, canonical texts and their hashes, strictly read.
 * - study: the declaration that a person agreed to. policy: which action to take.
 * - questions: what can be said in a round, and what a record says of it.
 * - exact: from random bytes to reports in whole numbers. laws: that these keep the epsilon that was promised.
 * - asked, shuffled, sealing: what some studies need besides, loaded by them alone.
 * - reports: a record in, the report of it out. heads: signed heads of the chain of policies.
 * - store, browser, folder: what must outlast a crash of the device. transport: requests. device: all of it together.
 */
export { Device } from "./device.js";
export { ClientError, Refused, Rejected, SplitView, Unreachable } from "./errors.js";
export { MemoryBox } from "./store.js";
