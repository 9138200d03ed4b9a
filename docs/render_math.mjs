// Formulas of all pages of the site, rendered by KaTeX: nothing is left to do when a page is opened.
//     node render_math.mjs SITE
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import katex from "katex";

const [site] = process.argv.slice(2), failures = [];
const entities = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'" };
const formula = /<(span|div) class="math"([^>]*)>([^]*?)<\/\1>/g;
for (const name of readdirSync(site, { recursive: true }).filter((name) => name.endsWith(".html"))) {
  const path = join(site, name), page = readFileSync(path, "utf8");
  const rendered = page.replace(formula, (_, tag, attributes, text) => {
    const tex = text.replace(/&(amp|lt|gt|quot|#39);/g, (entity) => entities[entity]).trim();
    try {
      return `<${tag} class="math"${attributes}>${katex.renderToString(tex, { displayMode: tag === "div", strict: false })}</${tag}>`;
    } catch (problem) {
      failures.push(`${name}: ${tex}: ${problem.message}`);
      return _;
    }
  });
  if (rendered !== page) writeFileSync(path, rendered);
}
if (failures.length) {
  console.error(failures.join("\n"));
  process.exit(1);
}
