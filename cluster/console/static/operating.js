// What an operator does with messages: follow one, send it again, take dead letters out.
import { ApiError, get } from "./api.js";
import { h, replace } from "./dom.js";
import { confirm, failure, message, number, pages, path, send, table, time } from "./parts.js";

const KINDS = {
  half: "half message of a transaction", "given-up": "transaction given up", delayed: "waits for its time",
  stored: "stored in its topic", read: "read", waits: "not read yet", retry: "tried again", dead: "dead letter",
};

/** The buttons of one message: its trace, and sending it again. */
export function actions(row, { may, again }) {
  const topic = row.of_topic ?? row.topic.replace(/^%RETRY%.*/, row.properties.RETRY_TOPIC ?? row.topic);
  const place = { topic: row.topic, broker: row.broker, queue: row.queue, offset: row.offset };
  return h("div.row", {},
    row.message_id ? h("a", { href: `#/trace/${path(topic, row.message_id)}` }, "Trace") : null,
    may("operator") && !row.topic.startsWith("%RETRY%")
      ? h("button", { type: "button", onclick: () => sendAgain(place, topic, again) }, "Send again …") : null);
}

/** A message of one's own for a topic. */
export function sending(topic, again) {
  const body = h("textarea", { required: true, maxlength: 32768, rows: 3 });
  const key = h("input", { maxlength: 120 }), tag = h("input", { maxlength: 120 }), said = h("div", { role: "status" });
  return h("section.card", {}, h("h2", {}, "Send a message"), h("form", { onsubmit: (event) => {
    event.preventDefault();
    const value = { topic, body: body.value, ...(key.value ? { key: key.value } : {}), ...(tag.value ? { tag: tag.value } : {}) };
    let found = null;
    confirm({
      title: `Send to ${topic}`, label: "Send it",
      command: `dledger produce ${topic}${key.value ? ` -k ${key.value}` : ""}${tag.value ? ` -t ${tag.value}` : ""}`,
      text: `Every group of ${topic} reads it.`,
      work: async () => { found = await send("POST", "/messages", value); return found; },
      then: () => { again(); replace(said, found ? h("p.good", {}, `✓ ${found.broker}:${found.queue}:${found.offset}`) : null); },
    });
  } }, h("label.above", {}, "Body", body), h("div.row", {}, h("label", {}, "Key", key), h("label", {}, "Tag", tag),
    h("button", {}, "Send …"))), said);
}

/** What a group may do: paused or not, broadcasting, how often a message comes back. */
export function groupSettings(name, now, again) {
  const retries = h("input", { type: "number", min: 0, max: 1000000, value: now.retries });
  const ask = (label, text, value, option) => confirm({
    title: label, label, text, command: `dledger group alter ${name} ${option}`,
    work: () => send("PATCH", `/groups/${path(name)}`, value), then: again,
  });
  return h("section.card", {}, h("h2", {}, "Settings"), h("p", {}, now.consume ? "It may read" : h("b.warn", {}, "It is paused"),
    `; a message comes back ${number(now.retries)} times at most; members may ${now.broadcast ? "" : "not "}read as broadcasting ones.`),
  h("div.row", {},
    now.consume
      ? h("button", { type: "button", onclick: () => ask("Pause it", "Its members get nothing until it goes on. Its offsets stay.",
        { consume: false }, "--no-consume") }, "Pause …")
      : h("button.main", { type: "button", onclick: () => ask("Let it go on", "Its members read on where they were.",
        { consume: true }, "--consume") }, "Go on …"),
    h("button", { type: "button", onclick: () => ask(now.broadcast ? "Forbid broadcasting" : "Allow broadcasting",
      "It counts for members that read from now on.", { broadcast: !now.broadcast },
      now.broadcast ? "--no-broadcast" : "--broadcast") }, now.broadcast ? "No broadcasting …" : "Broadcasting …"),
    h("label", {}, "Retries", retries),
    h("button", { type: "button", onclick: () => ask("Change retries",
      `A message that a member gives back comes ${retries.value} times at most; then it is a dead letter.`,
      { retries: Number(retries.value) }, `--retries ${retries.value}`) }, "Set …")));
}

function sendAgain(place, topic, again) {
  const group = h("input", { maxlength: 120, placeholder: "every group of its topic" });
  const dialog = document.getElementById("dialog");
  const at = `${place.broker}:${place.queue}:${place.offset}`;
  replace(dialog, h("h2", {}, "Send again"), h("form", { method: "dialog", onsubmit: (event) => {
    event.preventDefault();
    const to = group.value ? { to_group: group.value } : {};
    confirm({
      title: "Send again", label: "Send it",
      command: `dledger message resend ${place.topic} --at ${at}${group.value ? ` --to-group ${group.value}` : ""}`,
      text: `Makes a copy with a new id, ${group.value ? `which only the group ${group.value} reads`
        : `which every group of ${topic} reads`}. The message itself stays where it is.`,
      work: () => send("POST", "/messages/resend", { ...place, ...to }), then: again,
    });
  } }, h("div.row", {}, h("label", {}, "Only this group", group), h("button.main", {}, "Next"),
    h("button", { type: "button", onclick: () => dialog.close() }, "Leave it"))));
  if (!dialog.open) dialog.showModal();
}

export async function trace({ main, params: [topic = "", key = ""], go }) {
  const name = h("input", { value: topic, required: true, placeholder: "topic" });
  const id = h("input", { value: key, required: true, size: 40, placeholder: "message id, or its key" });
  const place = h("section.card", { "aria-live": "polite" });
  replace(main, h("div.title", {}, h("h1", {}, "Trace")), h("form.row", { onsubmit: (event) => {
    event.preventDefault();
    go(`trace/${path(name.value, id.value)}`);
  } }, h("label", {}, "Topic", name), h("label", {}, "Message", id), h("button.main", {}, "Follow")), place);
  if (!key) return replace(place, h("p.quiet", {}, "Name a topic, and a message id or a key that only one message has."));
  const found = await get("/messages/trace", { topic, key });
  return replace(place, h("p", {}, h("span.mono", {}, found.message_id)), table([
    ["time", (row) => h("span.mono", {}, row.at_ms === null ? "" : time(row.at_ms))],
    ["step", (row) => h(row.kind === "dead" || row.kind === "given-up" ? "span.bad" : row.kind === "waits" ? "span.warn" : "span",
      {}, KINDS[row.kind] ?? row.kind)],
    ["group", (row) => row.group ?? ""],
    ["topic", (row) => h("a", { href: `#/messages/${path(row.topic)}` }, row.topic)],
    ["place", (row) => h("span.mono", {}, `${row.broker}:${row.queue}:${row.offset}`)],
    ["detail", (row) => row.detail],
  ], found.steps, "Nothing is known of it."), h("p.quiet", {}, "The same as a command:"), h("pre", {}, found.command));
}

/** Asks for another value of a setting that changes while nodes run. */
function setting(row, said, again) {
  const dialog = document.getElementById("dialog"), now = row.set[0]?.value ?? row.value ?? "";
  const value = h("input", { value: now, maxlength: 255, placeholder: "empty: each node's own" });
  replace(dialog, h("h2", {}, row.key), h("p.quiet", {}, row.meaning), h("form", { method: "dialog", onsubmit: (event) => {
    event.preventDefault();
    const text = value.value.trim(), name = row.key.replace(/^broker\./, "");
    let found = null;
    confirm({
      title: row.key, label: text ? "Set it" : "Take it out",
      command: text ? `dledger config set ${name} ${text}` : `dledger config unset ${name}`,
      text: text ? `Sets ${row.key} to ${text} on every running node of each broker name, at once. It stands in their logs: `
        + "nodes that start again, or join, have it, too, and it counts before their settings files."
        : `Takes ${row.key} out of the log of each broker name: the value of each node's own settings counts again, at once.`,
      work: async () => { found = await send("PATCH", `/settings/${path(row.key)}`, { value: text }); },
      then: () => { replace(said, found.failed ? h("div.alert.critical", { role: "alert" }, found.failed)
        : h("p.good", {}, `✓ ${row.key} is changed on ${found.brokers.join(", ")}.`)); again(); },
    });
  } }, h("div.row", {}, h("label", {}, "Value", value), h("button.main", {}, "Next"),
    h("button", { type: "button", onclick: () => dialog.close() }, "Leave it"))));
  dialog.setAttribute("aria-label", row.key);
  if (!dialog.open) dialog.showModal();
}

const inLog = (row) => row.set.map((one) => `${one.value} in the log of ${one.broker}`).join(", ");

export async function settings({ main, may }) {
  const text = h("input", { type: "search", placeholder: "part of a name" });
  const which = h("select", {}, h("option", { value: "given" }, "given"), h("option", { value: "all" }, "all"));
  const place = h("section.card", { "aria-live": "polite" }), command = h("pre"), title = h("h1", {}, "Settings");
  const said = h("div", { role: "status" }), unknown = h("div");
  async function load() {
    try {
      const found = await get("/settings", { which: which.value, filter: text.value });
      replace(title, `Settings of ${found.node}`);
      replace(command, found.command);
      replace(unknown, found.live_error ? h("p.warn", {}, `What is set in the logs is not known: ${found.live_error}`) : null);
      replace(place, table([
        ["setting", (row) => mono(row.key)], ["value", (row) => mono(row.set[0]?.value ?? row.value ?? "–")],
        ["origin", (row) => (row.set.length ? `${inLog(row)}; this node's own: ${row.value ?? "–"}, ${row.origin}` : row.origin)],
        ["meaning", (row) => h("span.quiet", {}, row.meaning)],
        ["live", (row) => (!row.is_live ? "" : may("admin") ? h("button", { type: "button", "aria-label": `Change ${row.key}`,
          onclick: () => setting(row, said, load) }, "Change …") : "yes")],
      ], found.settings, "Every setting is at its default."));
    } catch (error) {
      replace(place, failure(error));
    }
  }
  let timer = 0;
  text.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(load, 200); });
  which.addEventListener("change", load);
  replace(main, h("div.title", {}, title), h("p.quiet", {},
    "Of this node. What can be changed here changes on every node, by the log. All else is read when a node starts: "
    + "write it into the file of every node, and start them again, one by one."),
    h("div.row", {}, h("label", {}, "Filter", text), h("label", {}, "Which", which)), said, unknown, place,
    h("p.quiet", {}, "The same as a command, on its machine:"), command);
  await load();
}

async function waiting(main, heading, path_, columns, none, note) {
  const said = h("p.quiet"), command = h("pre");
  const list = pages(async (cursor) => {
    const found = await get(path_, { cursor, limit: 100 });
    replace(said, note(found));
    replace(command, found.command);
    return { rows: found.messages, cursor: found.cursor };
  }, (rows) => table(columns, rows, none));
  replace(main, h("div.title", {}, h("h1", {}, heading)), said, h("section.card", {}, list.element),
    h("p.quiet", {}, "The same as a command:"), command);
  await list.start();
}

const mono = (text) => h("span.mono", {}, text);
const traced = (row) => (row.message_id && !row.topic.startsWith("%")
  ? h("a.mono", { href: `#/trace/${path(row.topic, row.message_id)}` }, row.message_id) : mono(row.message_id));

export const scheduled = ({ main }) => waiting(main, "Scheduled", "/scheduled", [
  ["due", (row) => mono(time(row.due_ms))], ["topic", (row) => row.topic], ["queue", (row) => row.queue, true],
  ["level", (row) => row.level || "timer", true], ["message", traced], ["keys", (row) => row.keys.join(" ")],
  ["sent", (row) => mono(time(row.stored_ms))],
], "No message waits for its time.", (found) =>
  `${number(found.total)} wait, in the order in which they were sent${found.next_due_ms === null ? "" : `; the next is due ${time(found.next_due_ms)}`}.`);

export const transactions = ({ main }) => waiting(main, "Open transactions", "/transactions", [
  ["begun", (row) => mono(time(row.stored_ms))], ["topic", (row) => row.topic], ["queue", (row) => row.queue, true],
  ["producer group", (row) => row.group], ["asked", (row) => number(row.checks), true],
  ["next check", (row) => mono(time(row.due_ms))], ["message", traced], ["keys", (row) => row.keys.join(" ")],
], "Every transaction has its outcome.", (found) => `${number(found.total)} without an outcome yet.`);

export async function deadOf(ctx) {
  const { main, params: [name], may, again } = ctx, base = `/dead-letters/${path(name)}`;
  const list = pages(async (cursor) => {
    const found = await get(base, { cursor });
    return { rows: found.messages, cursor: found.cursor };
  }, (rows) => (rows.length ? rows.map((row) => message(row, actions(row, ctx))) : h("p.quiet", {}, "It has none.")));
  const said = h("div", { role: "status" });
  const to = h("select", {}, h("option", { value: "group" }, "this group alone"), h("option", { value: "topic" }, "their topic"));
  replace(main, h("div.title", {}, h("h1", {}, `Dead letters of ${name}`), h("a", { href: `#/groups/${path(name)}` }, "group")),
    h("div.row", {},
      h("button", { type: "button", onclick: () => exportAll(base, name, said) }, "Export"),
      may("operator") ? [h("label", {}, "Send to", to),
        h("button", { type: "button", onclick: () => resendAll(base, name, to.value, said, again) }, "Send all again …")] : null),
    said, h("section.card", {}, list.element));
  await list.start();
}

/** All dead letters as a file: a JSON object a line, bodies in base64. */
async function exportAll(base, name, said) {
  const lines = [];
  let cursor = null;
  try {
    do {
      const found = await get(`${base}/export`, { cursor });
      lines.push(...found.messages.map((row) => `${JSON.stringify(row)}\n`));
      replace(said, h("p", {}, `${number(lines.length)} read …`));
      cursor = found.cursor;
    } while (cursor !== null);
  } catch (error) {
    return replace(said, failure(error));
  }
  const address = URL.createObjectURL(new Blob(lines, { type: "application/x-ndjson" }));
  const link = h("a", { href: address, download: `dead-letters-${name}.jsonl` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
  return replace(said, h("p.good", {}, `✓ ${number(lines.length)} dead letters are in the file.`));
}

// Where an error ended sending again, by address and receiver: the next time begins behind that.
const endedAt = new Map();

async function resendAll(base, name, to, said, again) {
  let count = 0, cursor = endedAt.get(`${base} ${to}`) ?? null, command = "";
  try {
    do {
      const plan = await send("POST", `${base}/resend`, { to, dry_run: true, limit: 200, ...(cursor ? { cursor } : {}) });
      count += plan.messages;
      ({ cursor } = plan);
      command = `dledger dlq resend ${name} --to ${to}`;
    } while (cursor !== null);
  } catch (error) {
    return replace(said, failure(error));
  }
  if (!count) return replace(said, h("p.quiet", {}, "There is none."));
  const whom = to === "group" ? `only ${name} reads` : "every group of their topic reads";
  return confirm({
    title: "Send dead letters again", label: `Send ${number(count)}`, danger: true, command,
    text: `Makes a copy of each of ${number(count)} dead letters, which ${whom}. They stay among the dead ones, too.`,
    work: () => resendPages(base, to, count, said), then: again,
  });
}

async function resendPages(base, to, count, said) {
  const key = `${base} ${to}`;
  let sent = 0, last = null, cursor = endedAt.get(key) ?? null;
  do {  // no more than were counted: what fails again meanwhile is not sent twice
    const found = await send("POST", `${base}/resend`,
      { to, dry_run: false, limit: Math.min(200, count - sent), ...(cursor ? { cursor } : {}) });
    sent += found.messages;
    last = found;
    ({ cursor } = found);
    endedAt.set(key, cursor);
    replace(said, h("p", {}, `${number(sent)} of ${number(count)} sent.`));
    if (found.failed) {
      const said = `${number(sent)} of ${number(count)} were sent, then: ${found.failed}`;
      throw new ApiError(200, { message: said, try: "Send again: it goes on behind them." });
    }
  } while (cursor !== null && sent < count);
  endedAt.delete(key);
  return last;
}
