// For participants: recompute the hashes of this page in the browser, and say when a newer round is out.

import { CANNOT, canCheck, isSigned, sha256 } from "./chain.js";
import { ask } from "./connection.js";
import { byId, make, whole } from "./elements.js";

const LOOK = 30_000; // milliseconds between two looks for a newer round
const text = (id) => byId(id).textContent;

async function results() {
  if (!canCheck()) return [[null, CANNOT]];
  const head = JSON.parse(text("head-text"));
  const declared = JSON.parse(text("declaration"));
  const named = (await sha256(text("declaration"))) === text("study-hash").replace("sha256:", "");
  const policy = head.policy === `sha256:${await sha256(text("policy-text"))}` && head.policy === text("policy-hash");
  const signed = await isSigned(head, declared.keys.signing);
  const about = head.study === text("study-hash");
  return [
    [named, "The hash of the declaration is the name of the study."],
    [about && policy, "The head is of this study, and the policy is the one that it names."],
    [signed, signed === null ? "This browser cannot check Ed25519 signatures." : "The head is signed by the key of the declaration."],
  ];
}

async function check() {
  const marks = { true: ["good", "✓ "], false: ["bad", "✗ "], null: ["quiet", "? "] };
  const found = await results().catch(() => [[false, "The texts of this page cannot be read."]]);
  byId("checked").replaceChildren(
    ...found.map(([sound, sentence]) => make("li", { class: marks[sound][0] }, marks[sound][1] + sentence)),
  );
}

async function look() {
  const round = Number(document.body.dataset.round);
  const head = document.hidden ? null : await ask("v1/head").catch(() => null);
  if (head === null || head.round <= round || byId("news").firstChild) return;
  byId("news").replaceChildren(
    `Round ${whole(head.round)} has begun since. `,
    make("a", { href: "./" }, "Show it"),
  );
}

byId("check").addEventListener("click", check);
document.body.classList.add("scripted");
setInterval(look, LOOK);
document.addEventListener("visibilitychange", look);
