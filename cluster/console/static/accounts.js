// Accounts of the log and their rights: listed, created, altered, deleted.
import { get } from "./api.js";
import { h, replace } from "./dom.js";
import { confirm, number, pages, path, send } from "./parts.js";

const PERMISSIONS = ["DENY", "PUB", "SUB", "PUB|SUB"];
const field = (name, input) => h("label", {}, name, input);
const quoted = (text) => (/^[\w.=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

function permission(value) {
  const found = h("select", {}, PERMISSIONS.map((one) => h("option", {}, one)));
  found.value = value;
  return found;
}

/** The inputs of an account's rights; `body()` and `options()` have what they say. */
function rights(row) {
  const admin = h("input", { type: "checkbox", checked: row.admin });
  const topics = h("input", { size: 34, value: row.topics.join(" "), placeholder: "orders=PUB|SUB news=SUB" });
  const groups = h("input", { size: 34, value: row.groups.join(" "), placeholder: "billing=SUB" });
  const topic = permission(row.default_topic), group = permission(row.default_group);
  const quotas = QUOTAS.map(([name, label]) => [name, label,
    h("input", { type: "number", min: 0, size: 12, value: row[name] ?? "", placeholder: "none" })]);
  return {
    element: [field("Administrator", admin), field("Topics", topics), field("Groups", groups),
      field("All other topics", topic), field("All other groups", group),
      quotas.map(([, label, input]) => field(label, input))],
    body: () => ({ admin: admin.checked, topics: topics.value, groups: groups.value,
      default_topic: topic.value, default_group: group.value,
      ...Object.fromEntries(quotas.map(([name, , input]) => [name, Number(input.value)])) }),
    options: () => [admin.checked ? "--admin" : "--no-admin",
      ...topics.value.split(/[\s,]+/).filter(Boolean).map((one) => `--topic ${quoted(one)}`),
      ...groups.value.split(/[\s,]+/).filter(Boolean).map((one) => `--group ${quoted(one)}`),
      `--default-topic ${quoted(topic.value)}`, `--default-group ${quoted(group.value)}`,
      ...quotas.filter(([name, , input]) => Number(input.value) !== (row[name] ?? 0))
        .map(([name, , input]) => `--${name.replace("_", "-")} ${Number(input.value)}`)].join(" "),
  };
}

const QUOTAS = [["max_messages", "Messages sent a second"], ["max_bytes", "Bytes sent a second"],
  ["max_connections", "Connections to a node"]];

const NONE = { account: "", admin: false, topics: [], groups: [], default_topic: "DENY", default_group: "DENY" };

/** A secret that was drawn; it is on this page alone, and gone with it. */
const told = (found) => (found.secret === null ? h("p.good", {}, `✓ ${found.account} is changed.`)
  : h("div.alert", {}, h("b", {}, `The secret of ${found.account}, shown this once:`), h("pre", {}, found.secret),
    "Keep it now: no page and no command shows it again.",
    found.failed ? h("p.bad", { role: "alert" }, `${found.failed}. Write the secret into a file, and finish it: ${found.command}`) : null));

function edit(row, said, again) {
  const isNew = row.broker === undefined, dialog = document.getElementById("dialog"), inputs = rights(row);
  const name = h("input", { required: true, minlength: 6, maxlength: 255, value: row.account, disabled: !isNew });
  let found = null;
  replace(dialog, h("h2", {}, isNew ? "New account" : `Alter ${row.account}`), h("form", { method: "dialog", onsubmit: (event) => {
    event.preventDefault();
    const account = name.value, verb = isNew ? "create" : "alter";
    confirm({
      title: isNew ? "New account" : `Alter ${account}`, label: isNew ? "Create it" : "Alter it",
      command: `dledger account ${verb} ${quoted(account)} ${inputs.options()}`,
      text: isNew ? `Makes ${account} on each broker name, and shows its secret once. With the first account, an `
        + "administrator's, every node begins to ask everybody for one; so the first one here is this console's own, "
        + "which gets the secret of its admin.account_file."
        : `Its rights become these on each broker name, at once, on connections that are open, too.`,
      work: async () => { found = isNew ? await send("POST", "/accounts", { account, ...inputs.body() })
        : await send("PATCH", `/accounts/${path(account)}`, inputs.body()); },
      then: () => { replace(said, told(found)); again(); },
    });
  } }, h("div.row", {}, field("Access key", name), inputs.element, h("button.main", {}, "Next"),
    h("button", { type: "button", onclick: () => dialog.close() }, "Leave it"))));
  dialog.setAttribute("aria-label", "account");
  if (!dialog.open) dialog.showModal();
}

function change(row, said, again, { title, text, words, body, danger }) {
  let found = null;
  confirm({
    title: `${title} ${row.account}`, label: title, danger, text, command: `dledger account ${words.replace("NAME", quoted(row.account))}`,
    work: async () => { found = body ? await send("PATCH", `/accounts/${path(row.account)}`, body)
      : await send("DELETE", `/accounts/${path(row.account)}`, {}); },
    then: () => { replace(said, body ? told(found) : h("p.good", {}, `✓ ${row.account} is deleted.`)); again(); },
  });
}

function buttons(row, said, again) {
  const shut = row.status === "enable";
  const button = (label, about) => h("button", { type: "button", "aria-label": `${label} ${row.account}`,
    onclick: () => change(row, said, again, about) }, `${label} …`);
  return h("div.row", {},
    h("button", { type: "button", "aria-label": `Alter ${row.account}`, onclick: () => edit(row, said, again) }, "Alter …"),
    button("New secret", { title: "New secret", words: "alter NAME --new-secret", body: { new_secret: true }, danger: true,
      text: "Draws another secret and shows it once. Clients that sign with the old one are refused from then on." }),
    button(shut ? "Disable" : "Enable", { title: shut ? "Disable" : "Enable", words: `alter NAME --${shut ? "disable" : "enable"}`,
      body: { enabled: !shut }, danger: shut, text: shut ? "Every request of it is refused, until it is enabled again."
        : "Its requests are served again, with the rights and the secret that it had." }),
    button("Delete", { title: "Delete", words: "delete NAME", body: null, danger: true,
      text: "Its requests are refused from then on, on every connection, and its rights are forgotten." }));
}

/** One account; its rights fold out. */
function one(row, change) {
  const lists = { topics: row.topics, groups: row.groups, policies: row.policies, "takes over": row.take_over };
  return h("details.message", {},
    h("summary", {}, h("b", {}, row.account), h("span.quiet", {}, row.broker),
      row.admin ? h("span.tag", {}, "administrator") : null,
      row.status === "enable" ? null : h("span.bad", {}, "disabled"),
      row.admin ? null : h("span.cut", {}, [...row.topics, ...row.groups, ...row.policies].join(", "))),
    h("dl", {}, Object.entries(lists).filter(([, found]) => found.length)
      .map(([name, found]) => [h("dt", {}, name), h("dd.mono", {}, found.join(" "))]),
    h("dt", {}, "all other"), h("dd", {}, `topics ${row.default_topic}, groups ${row.default_group}`),
    row.from ? [h("dt", {}, "unsigned from"), h("dd.mono", {}, row.from)] : null,
    QUOTAS.filter(([name]) => row[name] !== null).map(([name, label]) => [h("dt", {}, label), h("dd", {}, `at most ${number(row[name])}`)]),
    h("dt", {}, "sealed requests"), h("dd", {}, row.sealed)), change);
}

export async function accounts({ main, may }) {
  const text = h("input", { type: "search", placeholder: "part of a name" });
  const said = h("div", { role: "status" }), note = h("p.quiet"), command = h("pre");
  let first = NONE;
  const list = pages(async (cursor) => {
    const found = await get("/accounts", { filter: text.value, cursor, limit: 50 });
    replace(command, found.command);
    first = found.asked_for || found.own === null ? NONE : { ...NONE, account: found.own, admin: true };
    replace(note, `Accounts in the log: ${number(found.total)}. ${found.asked_for ? "Every node asks for an account."
      : `No account is asked for: the first one, an administrator's, changes that. ${found.own === null
        ? "Set admin.account_file of each node before: this console needs an account then" : `Make ${found.own} first: this console asks as it`}.`} Those of a node's own file are not here.`);
    return { rows: found.accounts, cursor: found.cursor };
  }, (rows) => (rows.length ? rows.map((row) => one(row, may("admin") ? buttons(row, said, list.start) : null))
    : h("p.quiet", {}, "No account like that.")));
  let timer = 0;
  text.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(list.start, 200); });
  replace(main, h("div.title", {}, h("h1", {}, "Accounts")), note, h("div.row", {}, field("Filter", text),
    may("admin") ? h("button.main", { type: "button", onclick: () => edit(first, said, list.start) }, "New account") : null),
    said, h("section.card", {}, list.element), h("p.quiet", {}, "The same as a command:"), command);
  await list.start();
}
