// The glass translator against Python: token for token, number for number, in a real browser.
//     node check_glass.mjs SITE CHECKS.json          (--first writes glass/first.html and glass/card.png anew)
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { launch, open, serve } from "./serve.mjs";

const [site, checks, option] = process.argv.slice(2);
const { translations, values, spoken } = JSON.parse(readFileSync(checks, "utf8"));
const failures = [], must = (holds, what) => (holds ? 0 : failures.push(what));
const { sha256 } = JSON.parse(readFileSync(join(site, "glass", "model.json"), "utf8"));
must(createHash("sha256").update(readFileSync(join(site, "glass", "weights.bin.gz"))).digest("hex") === sha256, "these are not the weights that were tested");
const server = await serve(site), browser = await launch();
const { page, complaints } = await open(browser, server.address);
const began = Date.now();
await page.goto(`${server.address}/glass/index.html`);
await page.waitForFunction(() => window.glass);
const first = (Date.now() - began) / 1000;

// What stands in the page before the model has come is what the model then shows.
const stored = new URL("glass/first.html", import.meta.url);
await page.waitForFunction(() => document.querySelector("footer") && document.querySelectorAll(".bridge path").length > 8 && !document.querySelector(".bridge .unwritten"));
const live = await page.evaluate(() => {
  const copy = document.querySelector("main").cloneNode(true);
  copy.querySelectorAll("section:not([aria-labelledby=writes])").forEach((part) => part.remove());
  copy.querySelector("#q").setAttribute("value", "58074");
  copy.querySelector("input[name=to]").setAttribute("checked", "");
  return copy.outerHTML;
});
if (option === "--first") {
  writeFileSync(stored, live);
  await page.setViewportSize({ width: 1200, height: 630 });
  await page.addStyleTag({ content: ".lead, .ask, .examples, .verdict, .covered, .lines, .caption { display: none } h1 { margin-top: 24px } section { margin: 20px 0 } .bridge { zoom: 1.05 }" });
  await page.screenshot({ path: new URL("glass/card.png", import.meta.url).pathname });
  process.exit(0);
}
must(readFileSync(stored, "utf8") === live, "glass/first.html is not what the page shows: write it anew with --first");

const differ = await page.evaluate(async (asked) => {
  const found = [];
  for (const { text, src, greedy, beam, to } of asked) {
    const plain = text.replace(/^>>..<< /, "");
    const own = window.glass.source(plain, to);
    if (String(own) !== String(src)) found.push(`${text}: ids ${own} for ${src}`);
    const until = (ids) => String(ids.slice(0, ids.indexOf(2) + 1 || undefined));
    if (until(window.glass.greedy(own)) !== until(greedy)) found.push(`${text}: greedy`);
  }
  for (const { text, src, beam } of asked.filter((_, i) => i % 10 === 0)) {
    const { best } = window.glass.beam(src, 4);
    const until = (ids) => String(ids.slice(0, ids.indexOf(2) + 1 || undefined));
    if (until(best) !== until(beam)) found.push(`${text}: beam ${best} for ${beam}`);
  }
  return found;
}, translations);
must(!differ.length, `${differ.length} differ from Python: ${differ.slice(0, 3)}`);

const far = await page.evaluate(async ({ src, tgt, gates, outputs }) => {
  const { layers, heads } = window.glass.about, kinds = ["encoder", "decoder", "cross"];
  const nested = kinds.map((_, k) => Array.from({ length: layers }, (_, i) => gates.slice((k * layers + i) * heads, (k * layers + i + 1) * heads)));
  const look = window.glass.look(src[0], [...tgt[0].slice(1), 0], nested), found = {}, sums = [];
  found.logits = Array.from({ length: 3 * layers + 1 }, (_, stage) => tgt[0].map((_, t) => [...look.logits(stage, t)])).flat(2);
  for (const kind of kinds) {
    const each = Array.from({ length: layers * heads }, (_, i) => look.head(kind, Math.floor(i / heads), i % heads));
    for (const part of Object.keys(each[0])) found[`${kind}_${part}`] = each.flatMap((one) => one[part].flatMap((row) => [...row]));
    sums.push(...each.flatMap(({ weights }) => weights.map((row) => Math.abs(row.reduce((a, b) => a + b, 0) - 1))));
  }
  const gap = (name) => outputs[name].reduce((most, x, i) => Math.max(most, Math.abs(x - found[name][i])), outputs[name].length === found[name].length ? 0 : Infinity);
  return { gaps: Object.fromEntries(Object.keys(outputs).map((name) => [name, gap(name)])), sums: Math.max(...sums) };
}, values);
must(far.gaps.logits <= 1e-4, `logits are off by ${far.gaps.logits}`);
must(Math.max(...Object.values(far.gaps)) <= 1e-3, `off: ${JSON.stringify(far.gaps)}`);
must(far.sums < 1e-5, `weights do not sum to 1: ${far.sums}`);

// What the first picture promises: each piece of the German needs its own word, and the tag asks for the language.
const needs = await page.evaluate(() => {
  const { glass } = window, src = glass.source("58074", "de"), ids = glass.greedy(src), before = glass.probabilities(src, ids);
  const covers = src.slice(0, -1).map((_, place) => glass.cover(src, ids, place)), label = (id) => glass.tokenizer.piece(id).trim();
  const own = ["eight", "fifty", "four", "seventy"], places = own.map((word) => src.map(label).indexOf(word));
  const drops = ids.slice(0, -1).map((_, t) => places.map((place) => before[t] - covers[place].probabilities[t]));
  return { drops, tagless: covers[src.map(label).indexOf("de")].text };
});
must(needs.drops.length === 4 && needs.drops.every((row, t) => row.every((drop, i) => (i === t ? drop > 0.5 : drop < 0.2))), `58,074 needs ${JSON.stringify(needs.drops)}`);
must(/[\uac00-\ud7a3]/.test(needs.tagless), `without its tag it writes ${needs.tagless}`);
const kept = await page.evaluate(() => {  // what the page says of 464: one beginning fails, two are enough
  const { glass } = window, gates = glass.allHeads(glass.about), src = glass.source("464", "de");
  gates[2][0][0] = gates[2][0][1] = 0;
  return [1, 2, 4].map((k) => glass.tokenizer.decode(glass.beam(src, k, 0.6, gates).best));
});
must(kept[0].startsWith("vierhundertacht") && kept[1] === kept[2] && kept[1] === "vierhundertvierundsechzig", `464 with two heads silent: ${kept}`);
const small = await page.evaluate(async () => {
  const { spoken } = await import("./numbers.js"), { glass } = window;
  return ["de", "ko"].flatMap((to) => Array.from({ length: 131 }, (_, n) => [to, n, glass.tokenizer.decode(glass.greedy(glass.source(String(n), to)))])
    .filter(([, n, text]) => text !== spoken(n, to)));
});
must(!small.length, `wrong: ${small.slice(0, 5)}`);
await page.locator(".bridge .from button", { hasText: /eight/ }).click();
must(/^Without .*eight.* it writes/.test(await page.textContent(".covered")), `the covered word says ${await page.textContent(".covered")}`);
await page.keyboard.press("ArrowDown");
must(!(await page.textContent(".covered b")).includes("eight"), "the arrow keys do not cover the next word");

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
await page.locator(".tree g.dead").filter({ hasNotText: /begin|end/ }).last().hover();
const other = await beginning(), piece = await page.locator(".tree .seen text:first-of-type").last().textContent();
must(winner.includes("the winner") && other.includes("dropped here"), `the tree says ${winner} and ${other}`);
must((await page.textContent(".beginning b")).endsWith(piece.replace("␣", " ")), `${other} does not end with ${piece}`);

// Somebody who is faster than the model, and has chosen dark on the site: nothing is lost.
const { page: early } = await open(browser, server.address);
await early.addInitScript(() => localStorage.setItem("theme", "dark"));
let release;
const held = new Promise((done) => (release = done));
await early.route("**/weights.bin.gz", (route) => held.then(() => route.continue()));
await early.goto(`${server.address}/glass/index.html`);
await early.fill("#q", "777");
await early.press("#q", "Enter");
release();
await early.waitForFunction(() => window.glass && document.querySelector("footer"));
const kept777 = await early.evaluate(() => [document.getElementById("q").value, document.activeElement.id, getComputedStyle(document.body).color, location.hash]);
must(kept777[0] === "777" && kept777[3].includes("q=777"), `typed before the model came: ${kept777}`);
must(kept777[1] === "q", "the focus is lost when the model comes");
must(kept777[2] === "rgb(232, 230, 225)", `dark was chosen, the ink is ${kept777[2]}`);
const { page: tapped } = await open(browser, server.address);
await tapped.route("**/weights.bin.gz", (route) => held.then(() => new Promise((done) => setTimeout(done, 300))).then(() => route.continue()));
await tapped.goto(`${server.address}/glass/index.html`);
await tapped.locator(".bridge .from button", { hasText: /eight/ }).click();
await tapped.waitForFunction(() => /^Without .*eight.* it writes/.test(document.querySelector(".covered").textContent), null, { timeout: 8000 })
  .catch(() => must(false, "a word that was tapped before the model came is not covered"));

const bytes = (folder) => readdirSync(folder).reduce((sum, name) => {
  const path = join(folder, name);
  return sum + (statSync(path).isDirectory() ? bytes(path) : name.endsWith(".gz") ? statSync(path).size : gzipSync(readFileSync(path)).length);
}, 0);
const size = bytes(join(site, "glass"));
must(size <= 2.2e6, `${size} bytes gzipped`);
must(!complaints.length, complaints.join("; "));
console.log(`${translations.length} numbers token for token, logits within ${far.gaps.logits.toExponential(1)}, first output after ${first.toFixed(1)} s, ${(size / 1e6).toFixed(1)} MB gzipped`);
await browser.close();
server.close();
if (failures.length) {
  console.error(failures.join("\n"));
  process.exit(1);
}
