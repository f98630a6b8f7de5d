/**
 * How large the client is when it travels, compressed by gzip -9, without HPKE: all of src as one bundle that esbuild has
 * minified (where npm install has brought it), and as it stands there, without comments and
 * indentation. What was stripped is loaded, to see that it is still the program.
 */
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";

const SOURCES = new URL("../src/", import.meta.url);
const NODE_ONLY = ["folder.js"]; // loaded by Node alone
const ASKED = ["asked.js"]; // loaded by local studies that ask one question
const SHUFFLED = ["shuffled.js", "sealing.js"]; // loaded by shuffled studies alone, with HPKE

/** A program without comments and indentation. Comments stand on lines of their own, behind code after "; // ", or are casts. */
function stripped(text) {
  return text
    .replace(/\/\*\*[^]*?\*\//g, "")
    .split("\n")
    .map((line) => line.replace(/^\s*\/\/.*$/, "").replace(/([;,{}]) \/\/ .*$/, "$1").trim())
    .filter(Boolean)
    .join("\n");
}

function inFolder(work) {
  const folder = mkdtempSync(join(tmpdir(), "size-"));
  return work(folder).finally(() => rmSync(folder, { recursive: true }));
}

const compressed = (text) => gzipSync(text, { level: 9 }).length;

async function plain() {
  const names = readdirSync(SOURCES).sort();
  const texts = new Map(names.map((name) => [name, stripped(readFileSync(new URL(name, SOURCES), "utf8"))]));
  await inFolder(async (folder) => {
    writeFileSync(join(folder, "package.json"), '{"type": "module"}');
    for (const [name, text] of texts) writeFileSync(join(folder, name), text);
    for (const name of names) await import(pathToFileURL(join(folder, name)).href);
  });
  const size = (chosen) => compressed(chosen.map((name) => texts.get(name)).join("\n"));
  return { plain: size(names.filter((name) => ![...NODE_ONLY, ...ASKED, ...SHUFFLED].includes(name))), plainWithAll: size(names) };
}

async function minified() {
  let esbuild;
  try {
    esbuild = await import("esbuild");
  } catch {
    return {};
  }
  const entry = fileURLToPath(new URL("index.js", SOURCES));
  const bundle = async (...external) => {
    const made = await esbuild.build({
      entryPoints: [entry], bundle: true, minify: true, format: "esm", target: "es2022", write: false, legalComments: "none",
      external: ["node:*", "@hpke/*", ...external.map((name) => `./${name}`)],
    });
    return compressed(made.outputFiles[0].contents);
  };
  return {
    minified: await bundle(...NODE_ONLY, ...ASKED, ...SHUFFLED), withAsked: await bundle(...NODE_ONLY, ...SHUFFLED),
    withShuffled: await bundle(...NODE_ONLY, ...ASKED), withNode: await bundle(),
  };
}

console.log(JSON.stringify({ ...(await minified()), ...(await plain()) }));
