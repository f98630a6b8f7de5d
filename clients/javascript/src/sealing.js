/**
 * Messages sealed one by one to the coordinator of a shuffled study, so that the shuffler cannot read them.
 *
 * HPKE (RFC 9180) in base mode, one shot: X25519, HKDF-SHA-256, ChaCha20-Poly1305, of the packages @hpke/core and
 * @hpke/chacha20poly1305, which are loaded here and nowhere else. The key stands in the declaration, and so in its hash.
 * `info` binds a message to study and round. A message is a whole number below 2^32 in four bytes, the lowest first;
 * what is sent is the one-time key, the ciphertext and its tag, 52 bytes, in base64url without padding.
 */
import { Refused } from "./errors.js";
import { unhex } from "./words.js";

/** @typedef {(key: Uint8Array, info: Uint8Array, contents: Uint8Array[]) => Promise<Uint8Array[]>} Seal */

/** Messages as they leave the device, each readable by the coordinator alone. @param {number[]} messages @param {string} key @param {string} study @param {number} round @param {Seal} [seal] */
export async function sealed(messages, key, study, round, seal = hpkeSeal) {
  const public_ = unhex(key);
  if (public_.length !== 32) throw new Refused("the sealing key of the study is none: nothing is sent");
  const info = new TextEncoder().encode(`discreet message 1\n${study}\n${round}`);
  const contents = messages.map((message) => Uint8Array.of(message, message >>> 8, message >>> 16, message >>> 24));
  return (await seal(public_, info, contents)).map((bytes) =>
    btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, ""),
  );
}

/** One-time key and ciphertext of each content. @type {Seal} */
export async function hpkeSeal(key, info, contents) {
  let core, chacha;
  try {
    [core, chacha] = await Promise.all([import("@hpke/core"), import("@hpke/chacha20poly1305")]);
  } catch {
    throw new Refused(
      "messages of a shuffled study are sealed with the packages @hpke/core and @hpke/chacha20poly1305: install them with " +
        " npm install @hpke/core @hpke/chacha20poly1305  or give Device a function 'seal'",
    );
  }
  const suite = new core.CipherSuite({
    kem: new core.DhkemX25519HkdfSha256(), kdf: new core.HkdfSha256(), aead: new chacha.Chacha20Poly1305(),
  });
  const recipientPublicKey = await suite.kem.deserializePublicKey(key);
  return Promise.all(
    contents.map(async (content) => {
      const { enc, ct } = await suite.seal({ recipientPublicKey, info }, content);
      return new Uint8Array([...new Uint8Array(enc), ...new Uint8Array(ct)]);
    }),
  );
}
