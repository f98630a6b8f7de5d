/**
 * How large the client is when it travels: all of src except sealing, without comments and indentation, as one text,
 * compressed by gzip -9. No minifier shortens names. That what was stripped is still the program is seen by loading it.
 */
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";

const SOURCES = new URL("../src/", import.meta.url);
const NODE_ONLY = "folder.js";

/** A program without comments and indentation. Comments stand on lines of their own, behind code after "; // ", or are casts. */
export function stripped(text) {
  return text
    .replace(/\/\*\*[^]*?\*\//g, "")
    .split("\n")
    .map((line) => line.replace(/^\s*\/\/.*$/, "").replace(/([;,{}]) \/\/ .*$/, "$1").trim())
    .filter(Boolean)
    .join("\n");
}

const names = readdirSync(SOURCES).filter((name) => name !== "sealing.js").sort();
const texts = new Map(names.map((name) => [name, stripped(readFileSync(new URL(name, SOURCES), "utf8"))]));
const folder = mkdtempSync(join(tmpdir(), "size-"));
try {
  writeFileSync(join(folder, "package.json"), '{"type": "module"}');
  for (const [name, text] of texts) writeFileSync(join(folder, name), text);
  for (const name of names) await import(pathToFileURL(join(folder, name)).href);
} finally {
  rmSync(folder, { recursive: true });
}
const compressed = (chosen) => gzipSync(chosen.map((name) => texts.get(name)).join("\n"), { level: 9 }).length;
console.log(JSON.stringify({ all: compressed(names), browser: compressed(names.filter((name) => name !== NODE_ONLY)) }));
