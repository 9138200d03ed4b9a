// The glass translator against Python: token for token, number for number, in a real browser.
//     node check_glass.mjs SITE CHECKS.json
import { readFileSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { launch, open, serve } from "./serve.mjs";

const [site, checks] = process.argv.slice(2);
const { translations, values, spoken } = JSON.parse(readFileSync(checks, "utf8"));
const failures = [], must = (holds, what) => (holds ? 0 : failures.push(what));
const server = await serve(site), browser = await launch();
const { page, complaints } = await open(browser, server.address);
const began = Date.now();
await page.goto(`${server.address}/glass/index.html`);
await page.waitForSelector(".bridge .to button");
const first = (Date.now() - began) / 1000;

const differ = await page.evaluate(async (asked) => {
  const found = [];
  for (const { text, src, greedy, beam, to } of asked) {
    const plain = text.replace(/^>>..<< /, "");
    const own = window.glass.source(plain, to);
    if (String(own) !== String(src)) found.push(`${text}: ids ${own} for ${src}`);
    const until = (ids) => String(ids.slice(0, ids.indexOf(2) + 1 || undefined));
    if (until(await window.glass.greedy(own)) !== until(greedy)) found.push(`${text}: greedy`);
  }
  for (const { text, src, beam } of asked.filter((_, i) => i % 10 === 0)) {
    const { best } = await window.glass.beam(src, 4);
    const until = (ids) => String(ids.slice(0, ids.indexOf(2) + 1 || undefined));
    if (until(best) !== until(beam)) found.push(`${text}: beam ${best} for ${beam}`);
  }
  return found;
}, translations);
must(!differ.length, `${differ.length} differ from Python: ${differ.slice(0, 3)}`);

const far = await page.evaluate(async ({ src, tgt, gates, outputs }) => {
  const found = await window.glass.run(src[0], tgt, undefined, Float32Array.from(gates));
  const gap = (name) => outputs[name].reduce((most, x, i) => Math.max(most, Math.abs(x - found[name].data[i])), 0);
  const sums = Object.keys(found).filter((name) => name.endsWith("weights")).flatMap((name) => {
    const { data, dims } = found[name], n = dims.at(-1);
    return Array.from({ length: data.length / n }, (_, r) => Math.abs(data.subarray(r * n, (r + 1) * n).reduce((a, b) => a + b, 0) - 1));
  });
  return { gaps: Object.fromEntries(Object.keys(outputs).map((name) => [name, gap(name)])), sums: Math.max(...sums) };
}, values);
must(far.gaps.logits <= 1e-4, `logits are off by ${far.gaps.logits}`);
must(Math.max(...Object.values(far.gaps)) <= 1e-3, `off: ${JSON.stringify(far.gaps)}`);
must(far.sums < 1e-5, `weights do not sum to 1: ${far.sums}`);

const words = await page.evaluate(async (asked) => {
  const { sentence } = await import("./numbers.js");
  return asked.filter(({ number, text }) => sentence(String(number)) !== text.replace(/^>>..<< /, "")).map(({ number }) => number);
}, translations);
const answers = await page.evaluate(async (spoken) => {
  const { sentence, spoken: say, value } = await import("./numbers.js");
  return Object.entries(spoken).flatMap(([to, rows]) => Object.entries(rows)
    .filter(([n, right]) => say(Number(n), to) !== right || value(n) !== Number(n) || value(sentence(n)) !== Number(n)).map(([n]) => `${to} ${n}`));
}, spoken);
must(!answers.length, `${answers.length} right answers are not Python's: ${answers.slice(0, 5)}`);
must(!words.length, `numbers in other words than Python's: ${words.slice(0, 5)}`);

const beginning = () => page.textContent(".beginning");
const winner = await beginning();
await page.locator(".tree g.dead").last().hover();
const other = await beginning(), piece = await page.locator(".tree .seen text:first-of-type").last().textContent();
must(winner.includes("the winner") && other.includes("dropped here"), `the tree says ${winner} and ${other}`);
must((await page.textContent(".beginning b")).endsWith(piece.replace("␣", " ")), `${other} does not end with ${piece}`);

const bytes = (folder) => readdirSync(folder).reduce((sum, name) => {
  const path = join(folder, name);
  return sum + (statSync(path).isDirectory() ? bytes(path) : name.endsWith(".gz") ? statSync(path).size : gzipSync(readFileSync(path)).length);
}, 0);
const size = bytes(join(site, "glass"));
must(size <= 8e6, `${size} bytes gzipped`);
must(!complaints.length, complaints.join("; "));
console.log(`${translations.length} numbers token for token, logits within ${far.gaps.logits.toExponential(1)}, first output after ${first.toFixed(1)} s, ${(size / 1e6).toFixed(1)} MB gzipped`);
await browser.close();
server.close();
if (failures.length) {
  console.error(failures.join("\n"));
  process.exit(1);
}
