// Every page of the site in a real browser, wide and narrow; the links; what loading costs; the thirty questions.
//     node check_site.mjs SITE [SCREENSHOTS]
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { gzipSync } from "node:zlib";
import { launch, open, serve, under } from "./serve.mjs";

const [site, photographs] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const failures = [], must = (holds, what) => (holds ? 0 : failures.push(what));
const server = await serve(site), browser = await launch();
const pages = ["", "tools/", "speed/", "convert/", "reference/", "glass/"].flatMap((folder) =>
  readdirSync(`${site}/${folder}`).filter((name) => name.endsWith(".html")).map((name) => folder + name));

const pictured = existsSync(`${site}/_static/pictures`);  // made by make_pictures.py
let sliders = 0;
const ids = new Map(), links = new Map();

/** Every slider of a page: its other end shows another picture, or another text. */
async function move(page, name) {
  await page.evaluate(() => document.querySelectorAll("details").forEach((part) => (part.open = true)));
  for (const box of await page.locator(".frames").all()) {
    await box.scrollIntoViewIfNeeded();
    await box.locator("form").waitFor();
    const seen = () => box.evaluate((box) => box.querySelector("img").src + box.querySelector("pre").textContent);
    await page.waitForFunction((box) => box.querySelector("img").src || box.querySelector("pre").textContent, await box.elementHandle());
    const before = await seen();
    await box.evaluate((box) => {
      const input = box.querySelector("input, select");
      input.value = Number(input.value) ? 0 : input.max || input.options.length - 1;
      input.dispatchEvent(new Event("input", { bubbles: true }));
    });
    must((await seen()) !== before, `${name}: a slider does nothing`);
    sliders += 1;
  }
}

/** One page, wide, then narrow. */
async function look(name) {
  const { page, complaints } = await open(browser, server.address);
  await page.goto(`${server.address}/${name}`);
  await page.addStyleTag({ content: "section { content-visibility: visible !important }" });  // all of it counts
  if (name.startsWith("glass/")) await page.waitForSelector(".tree");
  const seen = await page.evaluate(() => ({
    raw: [...document.querySelectorAll(".math")].filter((x) => !x.querySelector(".katex")).length,
    unnamed: [...document.querySelectorAll("article img")].filter((x) => !x.alt || /^_images|[.]png$/.test(x.alt)).length,
    ids: [...document.querySelectorAll("[id], a[name]")].map((x) => x.id || x.name),
    links: [...document.querySelectorAll("a[href]")].map((x) => x.href),
    bare: /download\W{1,3}download/.test(document.querySelector("article")?.textContent),
  }));
  must(!seen.bare, `${name}: a link to download the notebook is shown as markup`);
  must(!seen.raw, `${name}: ${seen.raw} formulas not rendered`);
  must(!seen.unnamed || !pictured, `${name}: ${seen.unnamed} figures without a text of their own`);
  await move(page, name);
  ids.set(name, new Set(seen.ids));
  links.set(name, seen.links);
  for (const width of [1280, 390]) {
    await page.setViewportSize({ width, height: 900 });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    must(wide <= 0, `${name} at ${width}: ${wide} px too wide`);
    if (photographs) await page.screenshot({ path: `${photographs}/${name.replaceAll("/", "_")}.${width}.png`, fullPage: true });
  }
  await page.setViewportSize({ width: 1280, height: 900 });
  if (!name.startsWith("reference/") || name === "reference/attention.html") {  // they are made alike
    await page.addScriptTag({ content: axe });
    await page.evaluate(() => {  // of formulas and code there are thousands of pieces, all alike
      document.querySelectorAll(".katex").forEach((formula) => formula.replaceWith("x"));
      [...document.querySelectorAll("pre")].slice(6).forEach((code) => (code.textContent = code.textContent));
    });
    for (const [colorScheme, rules] of [["light", {}], ["dark", { runOnly: ["color-contrast"] }]]) {
      await page.emulateMedia({ colorScheme });
      const { violations } = await page.evaluate((rules) => window.axe.run(document, { resultTypes: ["violations"], ...rules }), rules);
      for (const { id, impact, nodes } of violations.filter(({ impact }) => ["serious", "critical"].includes(impact))) {
        failures.push(`${name}, ${colorScheme}: axe ${impact} ${id}, ${nodes.length} times: ${nodes[0].html.slice(0, 120)}`);
      }
    }
  }
  for (const complaint of complaints) failures.push(`${name}: ${complaint}`);
  await page.close();
}

/** What a visitor waits for: the largest paint in seconds, how far things jump, kilobytes gzipped without pictures. */
async function cost(name) {
  const { page } = await open(browser, server.address);
  const loaded = [];
  page.on("response", (answer) => answer.request().resourceType() !== "image" && loaded.push(answer.body()));
  await page.goto(`${server.address}/${name}`);
  const { paint, shift } = await page.evaluate(() => new Promise((done) => {
    let paint = 0, shift = 0;
    new PerformanceObserver((list) => list.getEntries().forEach((x) => (paint = x.startTime / 1000))).observe({ type: "largest-contentful-paint", buffered: true });
    new PerformanceObserver((list) => list.getEntries().forEach((x) => (shift += x.value))).observe({ type: "layout-shift", buffered: true });
    setTimeout(() => done({ paint, shift }), 1000);
  }));
  const kilobytes = (await Promise.all(loaded)).reduce((sum, body) => sum + gzipSync(body).length, 0) / 1000;
  await page.close();
  console.log(`${name}: largest paint ${paint.toFixed(2)} s, layout shift ${shift.toFixed(3)}, ${kilobytes.toFixed(0)} kB gzipped without pictures`);
  must(paint > 0 && paint <= 1.5 && shift <= 0.05 && kilobytes <= 600, `${name} costs too much`);
}

for (const name of ["index.html", "03_attention.html"]) await cost(name);
const waiting = [...pages];
await Promise.all([1, 2].map(async () => {
  while (waiting.length) await look(waiting.shift());
}));

for (const [name, targets] of links) {
  for (const target of new Set(targets.filter((target) => target.startsWith(server.address)))) {
    const url = new URL(target), path = url.pathname.slice(under.length + 1) || "index.html", id = decodeURIComponent(url.hash.slice(1));
    if (!path.endsWith(".html")) continue;
    must(ids.has(path), `${name}: no page ${path}`);
    if (id && !path.startsWith("glass/")) must(!ids.has(path) || ids.get(path).has(id), `${name}: nothing at ${path}#${id}`);
  }
}

for (const place of ["03_attention.html#exercises", "13_translation.html#farewell"]) {  // far down a page
  const { page } = await open(browser, server.address);
  await page.goto(`${server.address}/${place}`);
  await page.waitForTimeout(1500);
  const top = await page.evaluate(() => document.getElementById(location.hash.slice(1)).getBoundingClientRect().top);
  must(Math.abs(top) < 200, `${place} is ${top.toFixed(0)} px away`);
  await page.close();
}

const states = new Set([...links.values()].flat().filter((link) => link.startsWith(`${server.address}/glass/index.html#`)));
for (const state of states) {
  const { page, complaints } = await open(browser, server.address);
  await page.goto(state);
  await page.waitForSelector(".tree");
  await page.waitForTimeout(300);
  const { see } = Object.fromEntries(new URLSearchParams(new URL(state).hash.slice(1)));
  const top = await page.evaluate((id) => document.getElementById(id)?.getBoundingClientRect().top, see);
  must(Math.abs(top) < 400 && !complaints.length, `${state}: ${see} is at ${top}; ${complaints}`);
  await page.close();
}
must(states.size >= 3, `${states.size} states of the glass translator are linked`);

const { page } = await open(browser, server.address);
await page.goto(`${server.address}/index.html`);
await page.fill("#course-search", "RoPE");  // as a visitor does; the questions below ask the engine itself
const typed = await page.waitForSelector("#course-hits a", { timeout: 10_000 }).then((hit) => hit.textContent(), () => "nothing");
must(/rotary/i.test(typed), `typing RoPE into the search finds ${typed}`);
const questions = readFileSync(new URL("questions.tsv", import.meta.url), "utf8").split("\n").filter((x) => x && !x.startsWith("#"));
const missed = [];
for (const [question, answers] of questions.map((line) => line.split("\t"))) {
  const hits = (await page.evaluate((q) => window.courseSearch(q, 3), question)).map(({ url }) => url.replace(/^\/(.*)\.html#/, "$1#"));
  if (!hits.some((hit) => answers.split(" ").includes(hit))) missed.push(`${question}: ${hits}`);
}
const right = questions.length - missed.length;
must(right >= 27, `the search answers ${right} of ${questions.length} questions, not\n  ${missed.join("\n  ")}`);
console.log(`${sliders} sliders move`);
console.log(`${pages.length} pages, ${[...links.values()].flat().length} links, ${right} of ${questions.length} questions answered`);
await browser.close();
server.close();
if (failures.length) {
  console.error(failures.slice(0, 60).join("\n"), `\n${failures.length} failures`);
  process.exit(1);
}
