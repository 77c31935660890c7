// Parts that several pages use: numbers, tables, messages, dialogs.
import { ApiError, send } from "./api.js";
import { h, replace } from "./dom.js";

export const number = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en"));
export const rate = (value) => (value >= 100 ? number(Math.round(value)) : number(Math.round(value * 10) / 10));
export const time = (ms) => (ms > 0 ? new Date(ms).toISOString().replace("T", " ").replace("Z", "") : "–");
export const path = (...parts) => parts.map(encodeURIComponent).join("/");

export function seconds(value) {
  if (!value) return "0 s";
  if (value < 120) return `${rate(value)} s`;
  if (value < 7200) return `${Math.round(value / 60)} min`;
  return `${Math.round(value / 3600)} h`;
}

/** columns: [title, row => cell, is a number]. */
export function table(columns, rows, none) {
  if (!rows.length) return h("p.quiet", {}, none);
  return h("div.scroll", { tabindex: 0, role: "region", "aria-label": "table" }, h("table", {},
    h("thead", {}, h("tr", {}, columns.map(([title, , n]) => h(n ? "th.n" : "th", { scope: "col" }, title)))),
    h("tbody", {}, rows.map((row) =>
      h("tr", {}, columns.map(([, cell, n]) => h(n ? "td.n" : "td", {}, cell(row))))))));
}

export function failure(error) {
  if (!(error instanceof ApiError)) throw error;
  return h("div.alert.critical", { role: "alert" }, h("b", {}, error.message), h("br"), error.attempt);
}

export function spark(values) {
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg");
  const line = document.createElementNS(ns, "polyline");
  const most = Math.max(...values, 1);
  svg.setAttribute("viewBox", "0 0 100 30");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  line.setAttribute("class", "spark");
  line.setAttribute("points", values.map((value, at) =>
    `${(100 * at) / Math.max(values.length - 1, 1)},${28 - (26 * value) / most}`).join(" "));
  svg.append(line);
  return svg;
}

export function message(row, actions) {
  const body = row.body;
  const facts = {
    topic: row.topic, "of topic": row.of_topic, place: `${row.broker} queue ${row.queue} offset ${row.offset}`,
    position: number(row.position), id: row.message_id, keys: row.keys.join(" "), tags: row.tags,
    born: time(row.born_ms), stored: time(row.stored_ms), attempt: row.attempt,
    body: `${number(body.size)} bytes, ${body.format}${body.is_cut ? ", cut off" : ""} ${body.note}`,
  };
  return h("details.message", {},
    h("summary", {}, h("span.mono", {}, time(row.stored_ms)), h("span.quiet", {}, `${row.queue}:${row.offset}`),
      h("b", {}, row.keys.join(" ")), row.tags ? h("span.tag", {}, row.tags) : null,
      h("span.cut.mono", {}, body.value.slice(0, 160))),
    h("dl", {}, Object.entries(facts).filter(([, value]) => value !== null && value !== "")
      .map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
    h("pre", {}, body.value || "(empty)"),
    h("details", {}, h("summary", {}, "properties"), h("dl", {}, Object.entries(row.properties)
      .map(([name, value]) => [h("dt", {}, name), h("dd.mono", {}, value)]))), actions);
}

/** A list that grows by pages; load(cursor) gives {rows, cursor}. */
export function pages(load, show) {
  const place = h("div"), more = h("button", { type: "button", hidden: true }, "More");
  let rows = [], cursor = null;
  async function next() {
    more.disabled = true;
    try {
      const found = await load(cursor);
      rows = rows.concat(found.rows);
      cursor = found.cursor;
      replace(place, show(rows));
      more.hidden = cursor === null;
    } catch (error) {
      if (error.name !== "AbortError") replace(place, show(rows), failure(error));
    }
    more.disabled = false;
  }
  more.addEventListener("click", next);
  return { element: h("div", {}, place, more), start: () => { rows = []; cursor = null; return next(); } };
}

/** Asks before a change: what it does, the same as a command, then the answer.
 * It stays open with what the answer of `work` says of the audit log (`not_logged`). */
export function confirm({ title, text, command, label, danger, work, then }) {
  const dialog = document.getElementById("dialog"), said = h("div");
  const go = h(danger ? "button.bad" : "button.main", { type: "button", onclick: run }, label);
  async function run() {
    go.disabled = true;
    try {
      const found = await work();
      then();
      if (!found?.not_logged) return dialog.close();
      go.remove();
      return replace(said, h("div.alert", { role: "alert" }, h("b", {}, "✓ Done. "), found.not_logged));
    } catch (error) {
      replace(said, failure(error));
      go.disabled = false;
    }
    return null;
  }
  replace(dialog, h("h2", {}, title), h("p", {}, text), h("p.quiet", {}, "The same as a command:"),
    h("pre", {}, command), said,
    h("div.row", {}, go, h("button", { type: "button", onclick: () => dialog.close() }, "Leave it")));
  dialog.setAttribute("aria-label", title);
  dialog.showModal();
}

export { send };
