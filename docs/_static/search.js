// The search field in the sidebar: sections of the course, best first, by MiniSearch. Nothing leaves the machine.
const common = new Set(("a an and are as at be by can do does for from has have how i in is it its my of on or that the to " +
  "was what when where which who why with you your").split(" "));
const endings = /(isation|ization|ations?|ing|ness|ers?|ies|es|s|ed)$/;
const root = () => new URL(document.querySelector(".course-search")?.dataset.root || "./", location.href);
const synonyms = {
  rope: "rotary", alibi: "positions", sgd: "momentum", bpe: "merges", tokenization: "tokenizer", cnn: "convolution", ffn: "feed-forward", mlp: "feed-forward",
  kv: "cache", layernorm: "norm", batchnorm: "norm", logits: "scores", perplexity: "loss", finetune: "init", finetuning: "init", gpu: "device", cuda: "device",
  quantisation: "quantization", hallucinate: "invent", overfit: "overfitting", gpt: "decoder", bert: "encoder", lr: "rate", qkv: "query", mha: "multi-head",
  "√d": "scaled", "√dₖ": "scaled", "√d_k": "scaled", hallucination: "invent", hallucinations: "invent", chatgpt: "gpt",
};
let engine;

/** A word as it is looked up: small letters, without its ending; nothing for words that stand everywhere. */
function term(word) {
  word = word.toLowerCase();
  return common.has(word) ? null : word.length > 4 ? word.replace(endings, "") : word.replace(/s$/, "");
}

async function makeEngine() {
  const [{ default: MiniSearch }, sections] = await Promise.all([
    import(new URL("_static/minisearch.js", root()).href),
    fetch(new URL("_static/sections.json", root())).then((answer) => answer.json()),
  ]);
  const search = new MiniSearch({
    fields: ["title", "page", "text"], storeFields: ["title", "page", "text", "weight"], idField: "url",
    processTerm: term, tokenize: (text) => text.split(/[^\p{L}\p{N}√]+/u),
  });
  search.addAll(sections);
  return search;
}

/** The sections that answer, best first. */
window.courseSearch = async (question, limit = 8) => {
  const search = await (engine ??= makeEngine());
  const words = question.split(/\s+/).flatMap((word) => [word, synonyms[word.toLowerCase()] ?? []].flat());
  return search.search(words.join(" "), {
    boost: { title: 3, page: 1 }, prefix: (word) => word.length > 3, fuzzy: (word) => (word.length > 5 ? 0.15 : 0),
    boostDocument: (_, __, { weight }) => weight,
  }).slice(0, limit).map((hit) => ({ ...hit, url: hit.id }));
};

/** Some words of a text around the first that was found. */
function excerpt({ text, match }) {
  const found = Object.keys(match).map((word) => text.toLowerCase().indexOf(word)).filter((place) => place >= 0);
  const from = Math.max(0, text.lastIndexOf(" ", Math.min(...found, text.length) - 40));
  const to = from + 120 < text.length ? text.lastIndexOf(" ", from + 120) : text.length;
  return (from ? "… " : "") + text.slice(from, to).trim() + (to < text.length ? " …" : "");
}

addEventListener("DOMContentLoaded", () => {
  const field = document.getElementById("course-search"), hits = document.getElementById("course-hits");
  if (!field) return;
  let latest = 0;
  field.addEventListener("input", async () => {
    const asked = ++latest, question = field.value.trim();
    const found = question ? await window.courseSearch(question) : [];
    if (asked !== latest) return;
    if (question && !found.length) {
      const row = document.createElement("li");
      row.textContent = `Nothing found for “${question}”. Try one word, or look in the map on the first page.`;
      return hits.replaceChildren(row);
    }
    hits.replaceChildren(...found.map((hit) => {
      const row = document.createElement("li"), link = document.createElement("a"), words = document.createElement("p");
      link.href = new URL(hit.url.slice(1), root());
      link.textContent = hit.page === hit.title ? hit.title : `${hit.page} › ${hit.title}`;
      words.textContent = excerpt(hit);
      row.append(link, words);
      return row;
    }));
  });
  const close = () => { for (const drawer of document.querySelectorAll(".sidebar-toggle")) drawer.checked = false; };
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    if (event.key !== "/" || event.ctrlKey || event.metaKey || /INPUT|TEXTAREA|SELECT/.test(event.target.tagName)) return;
    event.preventDefault();
    if (field.getBoundingClientRect().right <= 0) document.getElementById("__navigation").checked = true;  // it is in a drawer
    field.focus();
  });
  for (const label of document.querySelectorAll("label.nav-overlay-icon, label.toc-overlay-icon")) {  // by keyboard, too
    Object.assign(label, { tabIndex: 0, role: "button", ariaLabel: document.getElementById(label.htmlFor).ariaLabel });
    label.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      label.click();
    });
  }
  hits.addEventListener("click", close);
  field.form.addEventListener("keydown", (event) => {  // up and down between the field and what was found
    const stops = [field, ...hits.querySelectorAll("a")], by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const next = stops[stops.indexOf(document.activeElement) + by];
    if (!by || !next) return;
    event.preventDefault();
    next.focus();
  });
  field.form.addEventListener("submit", (event) => {
    event.preventDefault();
    hits.querySelector("a")?.click();
  });
});
