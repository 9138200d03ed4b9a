// Numbers in English words, as the course's corpus writes them: 234,567 → "two hundred and thirty-four thousand, …".

const small = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen " +
  "seventeen eighteen nineteen").split(" ");
const tens = "- - twenty thirty forty fifty sixty seventy eighty ninety".split(" ");

/** A whole number from 0 to 999,999 in words. */
export function words(n) {
  if (n < 20) return small[n];
  if (n < 100) return tens[Math.floor(n / 10)] + (n % 10 ? `-${small[n % 10]}` : "");
  const [unit, name] = n < 1000 ? [100, "hundred"] : [1000, "thousand"];
  const rest = n % unit, head = `${words(Math.floor(n / unit))} ${name}`;
  if (!rest) return head;
  return head + (unit === 100 || rest < 100 ? " and " : ", ") + words(rest);
}

/** The words of a text, one by one, as they are compared: "twenty one" and "a hundred" are numbers, too. */
const plain = (text) => text.toLowerCase().split(/[\s,-]+/).filter((word) => word && word !== "and").map((word) => (word === "a" ? "one" : word));

/** The whole number that was typed, in digits or in English words; null if it is none, or over 999,999. */
export function value(text) {
  const digits = text.trim().replace(/[,.\s_](?=\d{3}(\D|$))/g, "");
  if (/^\d+$/.test(digits)) return digits.length < 7 ? Number(digits) : null;
  let thousands = 0, part = 0;
  for (const word of plain(text)) {
    if (small.includes(word)) part += small.indexOf(word);
    else if (tens.includes(word)) part += 10 * tens.indexOf(word);
    else if (word === "hundred") part *= 100;
    else if (word === "thousand") [thousands, part] = [part, 0];
    else return null;
  }
  const n = 1000 * thousands + part;
  return n < 1e6 && String(plain(words(n))) === String(plain(text)) ? n : null;
}

const einer = "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn".split(" ");
const zehner = "- - zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split(" ");

function german(n) {
  if (n < 20) return einer[n];
  const one = (k) => (k === 1 ? "ein" : german(k));
  if (n < 100) return (n % 10 ? `${one(n % 10)}und` : "") + zehner[Math.floor(n / 10)];
  const [unit, name] = n < 1000 ? [100, "hundert"] : [1000, "tausend"];
  return one(Math.floor(n / unit)) + name + (n % unit ? german(n % unit) : "");
}

function korean(n) {
  if (n >= 10_000) {
    const high = Math.floor(n / 10_000), rest = n % 10_000;
    return `${high > 1 ? korean(high) : ""}만${rest ? ` ${korean(rest)}` : ""}`;
  }
  if (!n) return "영";
  return [[1000, "천"], [100, "백"], [10, "십"], [1, ""]].map(([unit, name]) => {
    const digit = Math.floor(n / unit) % 10;
    return !digit ? "" : (digit > 1 || unit === 1 ? " 일이삼사오육칠팔구"[digit] : "") + name;
  }).join("");
}

/** The right answer: a number in German or Korean words. */
export const spoken = (n, to) => (to === "de" ? german(n) : korean(n));

/** What the reader typed as the sentence that the model reads: a number in words, as in its training; anything else as it is. */
export function sentence(text) {
  const n = value(text);
  return n === null ? text.trim().toLowerCase() : words(n);
}
