/**
 * Signed heads of the chain of policies: that everybody is shown the same one, and proof if not.
 *
 * Every round has one head: study, round, hashes of policy and release, hash of the head before it, signed (Ed25519)
 * with the key that the declaration names. A device checks the signature, that the head belongs to what it was sent,
 * and that the chain leads from the last head that it has seen to this one. A service that shows different policies to
 * different people must sign two heads for one round; a device that sees both keeps them as evidence.
 */
import { Refused, SplitView } from "./errors.js";
import { canonical, digest, field, subtle, unhex, whole } from "./words.js";

/** @typedef {import("./words.js").Content} Head */
/** @typedef {(key: Uint8Array, signature: Uint8Array, signed: Uint8Array) => boolean | Promise<boolean>} Verify */

/** Refuse a head of another study or with a wrong signature. @param {Head} head @param {string} study @param {string} key @param {Verify | null} verify */
export async function checkHead(head, study, key, verify) {
  if (field(head, "study", "text") !== study || field(head, "key", "text") !== key) {
    throw new Refused("the head of the policy is that of another study, or of another key: nothing is sent");
  }
  whole(head, "round", 0, Number.MAX_SAFE_INTEGER);
  for (const name of ["policy", "previous", "released", "signature"]) field(head, name, "text");
  if (!verify) return;
  const { signature, ...body } = head;
  const signed = new TextEncoder().encode(canonical(body));
  if (!(await verify(unhex(key), unhex(signature), signed))) {
    throw new Refused("the signature of the policy's head is wrong: nothing is sent");
  }
}

/** Refuse a policy that is not the one of its head. @param {Head} head @param {any} policy @param {number} number */
export async function checkPolicy(head, policy, number) {
  if (head.round !== number || head.policy !== (await digest(policy))) {
    throw new Refused("the policy is not the one that its signed head names: nothing is sent");
  }
}

/** Follow the chain from the last head that was seen to this one; `fetch(k)` gives the heads from round k on. @param {Head} last @param {Head} head @param {(start: number) => Promise<Head[]>} fetch @param {(head: Head) => Promise<void>} check */
export async function checkChain(last, head, fetch, check) {
  if (head.round === last.round) return sameOrEvidence(last, head);
  if (head.round < last.round) {
    throw new Refused(
      `the service is at round ${head.round}, and this device has seen round ${last.round}: it lost rounds or shows an ` +
        "old one; nothing is sent",
    );
  }
  let before = await digest(last);
  if (head.previous === before) return;
  for (const link of await links(last.round, head, fetch)) {
    if (link.round === last.round) {
      if (canonical(link) === canonical(last)) continue;
      await check(link);
      sameOrEvidence(last, link);
    }
    if (link.previous !== before) {
      throw new Refused(`the chain of heads is broken before round ${link.round}: nothing is sent`);
    }
    before = await digest(link);
  }
  if (before !== (await digest(head))) {
    throw new Refused("the chain of heads does not lead to the policy of this round: nothing is sent");
  }
}

/** The signature check of the platform, where it has one. @param {Uint8Array} key @param {Uint8Array} signature @param {Uint8Array} signed @returns {Promise<boolean>} */
export async function platformVerify(key, signature, signed) {
  let known;
  try {
    known = await subtle().importKey("raw", /** @type {BufferSource} */ (key), { name: "Ed25519" }, false, ["verify"]);
  } catch (error) {
    if (/** @type {Error} */ (error).name !== "NotSupportedError") return false;
    throw new Refused(
      "signatures cannot be checked here (WebCrypto without Ed25519): give Device a function 'verify' that does, or " +
        "signatures: false, which trusts the connection instead",
    );
  }
  const [proof, content] = /** @type {BufferSource[]} */ ([signature, signed]);
  return subtle().verify({ name: "Ed25519" }, known, proof, content);
}

/** @param {Head} last @param {Head} head */
function sameOrEvidence(last, head) {
  const both = /** @type {[string, string]} */ ([canonical(last), canonical(head)]);
  if (both[0] !== both[1]) throw new SplitView(last.round, both);
}

/** The heads from round `start` to that of `head`, fetched piece by piece. @param {number} start @param {Head} head @param {(start: number) => Promise<Head[]>} fetch */
async function links(start, head, fetch) {
  /** @type {Head[]} */
  const found = [];
  for (;;) {
    const piece = await fetch(found.length ? found[found.length - 1].round + 1 : start);
    for (const link of piece) {
      whole(link, "round", 0, Number.MAX_SAFE_INTEGER);
      field(link, "previous", "text");
      if (found.length && link.round <= found[found.length - 1].round) {
        throw new Refused("the service lists heads out of order: nothing is sent");
      }
      if (link.round >= head.round) return link.round === head.round ? [...found, link] : found;
      found.push(link);
    }
    if (!piece.length) return found;
  }
}
