/** The JSON of the service: canonical texts as Python writes them, and answers that are refused. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Float, canonical, digest, field, finite, parse, read, unhex, whole } from "../src/words.js";

const bytes = (text) => new TextEncoder().encode(text);

test("numbers are written as Python's repr does", () => {
  const cases = {
    "0.0": 0, "-0.0": -0, "1.0": 1, "0.1": 0.1, "1e-05": 0.00001, "0.0001": 0.0001, "1e+16": 1e16,
    "1234567890123456.0": 1234567890123456, "9007199254740992.0": 2 ** 53, "1.5e+300": 1.5e300, "5e-324": 5e-324,
    "-2.5": -2.5, "123.456": 123.456, "1.7976931348623157e+308": Number.MAX_VALUE, "0.30000000000000004": 0.1 + 0.2,
  };
  for (const [text, value] of Object.entries(cases)) assert.equal(canonical(new Float(value)), text);
});

test("what was read is written as the one canonical text", () => {
  const text = '{"b": [1, 1.0, -0, -0.0, 1E2, 12345678901234567890, true, null], "a": "\\u00e9\\n\\u007f\\ud83d\\ude00é", "\\uffff": 1, "\\ud800\\udc00": 2}';
  const wanted =
    '{"a":"\\u00e9\\n\\u007f\\ud83d\\ude00\\u00e9","b":[1,1.0,0,-0.0,100.0,12345678901234567890,true,null],' +
    '"\\uffff":1,"\\ud800\\udc00":2}';
  assert.equal(canonical(parse(text)), wanted);
  assert.throws(() => canonical(0.5), TypeError);
});

test("hashes are those of canonical texts", async () => {
  assert.equal(await digest({}), "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
});

test("answers that are no JSON objects are refused", () => {
  for (const text of ["", "[]", "<html>", '{"a": 1, "a": 2}', '{"a": NaN}', '{"a": 1e999}', "[".repeat(100000), "{} {}", '{"a": 01}', '{"a": 1.}', '{"a": "\t"}', '{"a": [1,]}', "{'a': 1}", '{"a": truefalse}', '"a']) {
    assert.throws(() => read(bytes(text)), /JSON object/, text.slice(0, 30));
  }
  assert.throws(() => read(Uint8Array.of(0xff)), /JSON object/);
  assert.deepEqual(Object.keys(read(bytes('{"__proto__": 1, "constructor": 2}'))), ["__proto__", "constructor"]);
});

test("fields are read strictly", () => {
  const content = parse('{"n": 3, "x": 3.0, "big": 99999999999999999999, "flag": true}');
  assert.equal(whole(content, "n", 1, 3), 3);
  for (const name of ["x", "flag"]) assert.throws(() => whole(content, name, 0, 9), /whole number/);
  for (const [name, most] of [["n", 2], ["big", 9]]) assert.throws(() => whole(content, name, 0, most), /between/);
  assert.throws(() => field(content, "toString", "text"), /missing/);
  assert.equal(finite(content.x, "x"), 3);
  for (const value of [undefined, "1", true, null, NaN]) assert.throws(() => finite(value, "x"), /must be a number/);
  assert.deepEqual([...unhex("00ff")], [0, 255]);
  assert.deepEqual([unhex("0"), unhex("zz")].map((each) => each.length), [0, 0]);
});

test("what is nested too deeply or has too many digits is no JSON here, as for the service", () => {
  const nested = (depth) => "[".repeat(depth) + "]".repeat(depth);
  assert.ok(parse(nested(101)));
  for (const text of [nested(102), nested(1_000_000), "1".repeat(4301)]) assert.throws(() => parse(text), SyntaxError);
  assert.equal(typeof parse("1".repeat(4300)), "bigint");
});

test("bytes that are no text are no answer", () => {
  assert.equal(read(bytes('{"a": "é"}')).a, "é");
  assert.throws(() => read(Uint8Array.from([...bytes('{"a": "'), 0xff, ...bytes('"}')])), /not a JSON object/);
});
