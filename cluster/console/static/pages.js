// The pages. Each gets ctx: {main, params, signal, may(role), go(hash), every(seconds, work)}.
import { get, stream } from "./api.js";
import { h, replace } from "./dom.js";
import { actions, groupSettings, sending } from "./operating.js";
import { confirm, failure, message, number, pages, path, rate, seconds, send, spark, table, time } from "./parts.js";

const link = (hash, text) => h("a", { href: `#/${hash}` }, text);
const title = (text, ...rest) => h("div.title", {}, h("h1", {}, text), rest);
const field = (label, input) => h("label", {}, label, input);
const history = { in: [], out: [] };

export function overview({ main, every }) {
  const place = h("div", {}, h("p", {}, "Loading …"));
  replace(main, title("Overview"), place);
  every(2, async () => {
    const found = await get("/overview");
    for (const way of ["in", "out"]) {
      history[way].push(found[`messages_${way}_per_second`]);
      history[way].splice(0, history[way].length - 120);
    }
    replace(place,
      found.alerts.length
        ? found.alerts.map((row) => h(`div.alert.${row.level}`, { role: "alert" }, h("b", {}, row.message), h("br"), row.try))
        : h("p.good", {}, "✓ Nothing is wrong."),
      h("div.tiles", {},
        h("div.tile", {}, "messages in / s", h("b", {}, rate(found.messages_in_per_second)), spark(history.in)),
        h("div.tile", {}, "messages out / s", h("b", {}, rate(found.messages_out_per_second)), spark(history.out)),
        h("div.tile", {}, "topics", h("b", {}, number(found.topic_count)), h("span.quiet", {}, "with the system's own")),
        found.groups.map((group) => h("div.tile", {}, group.name,
          h("b", {}, group.leader ? `${group.leader} leads` : "no leader"),
          h("span.quiet", {}, `term ${group.term ?? "–"}, ${number(group.may_fail_now)} of ${group.members} may fail`)))),
      h("section.card", {}, h("h2", {}, "Replicas"), table([
        ["node", (row) => row.node],
        ["group", (row) => row.group],
        ["role", (row) => h(row.role === "leader" ? "span.lead" : row.up ? "span" : "span.bad", {}, row.role)],
        ["term", (row) => number(row.term), true],
        ["last", (row) => number(row.last_index), true],
        ["committed", (row) => number(row.committed_index), true],
        ["applied", (row) => number(row.applied_index), true],
        ["dispatched", (row) => number(row.dispatched_index), true],
        ["lag", (row) => number(row.lag), true],
        ["disk", (row) => h(row.disk === "good" ? "span" : "span.bad", {}, row.disk || "–",
          row.disk_used_ratio === null ? "" : `, ${Math.round(row.disk_used_ratio * 100)} % used`)],
        ["address", (row) => h("span.mono", {}, row.address)],
      ], found.replicas, "No replica is known.")));
  }, place);
}

function filtered(main, heading, load, show, ...more) {
  const text = h("input", { type: "search", placeholder: "part of a name" });
  const kind = more.find((one) => one.tagName === "SELECT");
  const rows = pages(async (cursor) => load({ filter: text.value, kind: kind?.value, cursor, limit: 50 }), show);
  let timer = 0;
  text.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(rows.start, 200); });
  kind?.addEventListener("change", rows.start);
  replace(main, title(heading), h("div.row", {}, field("Filter", text), kind ? field("Kind", kind) : null,
    more.filter((one) => one !== kind)), h("section.card", {}, rows.element));
  return rows.start();
}

export function topics({ main, may, go }) {
  const kind = h("select", {}, ["user", "retry", "dead", "system", "all"].map((name) => h("option", {}, name)));
  const create = may("admin") ? h("button.main", { type: "button", onclick: () => newTopic(go) }, "New topic") : null;
  return filtered(main, "Topics", async (values) => {
    const found = await get("/topics", values);
    return { rows: found.topics, cursor: found.cursor };
  }, (rows) => table([
    ["topic", (row) => link(`topics/${path(row.name)}`, row.name)],
    ["kind", (row) => row.kind],
    ["queues", (row) => number(row.queues), true],
    ["messages", (row) => row.error ? h("span.bad", {}, row.error) : number(row.messages), true],
    ["in / s", (row) => row.error ? "–" : rate(row.messages_in_per_second), true],
    ["written", (row) => h("span.mono", {}, time(row.written_ms))],
  ], rows, "No topic of this kind."), ...[kind, create].filter(Boolean));
}

function newTopic(go) {
  const name = h("input", { required: true, maxlength: 127 }), queues = h("input", { type: "number", min: 1, max: 4096, value: 4 });
  const dialog = document.getElementById("dialog");
  replace(dialog, h("h2", {}, "New topic"), h("form", { method: "dialog", onsubmit: (event) => {
    event.preventDefault();
    confirm({
      title: "New topic", label: "Create it", command: `dledger topic create ${name.value} -q ${queues.value}`,
      text: `Makes ${name.value} with ${queues.value} queues on each broker name. A topic that exists stays as it is.`,
      work: () => send("POST", "/topics", { name: name.value, queues: Number(queues.value) }),
      then: () => go(`topics/${path(name.value)}`),
    });
  } }, h("div.row", {}, field("Name", name), field("Queues", queues), h("button.main", {}, "Next"),
    h("button", { type: "button", onclick: () => dialog.close() }, "Leave it"))));
  if (!dialog.open) dialog.showModal();
}

const PERMS = [["read-write", 6], ["read", 4], ["write", 2]];
const DURABILITIES = {
  "majority-on-disk": "a majority has them on disk",
  "majority-in-memory": "a majority has them in memory; a power failure of several nodes may take some back",
};

export async function topic({ main, params: [name], may, go, again }) {
  const found = await get(`/topics/${path(name)}`);
  const settings = found.settings[0];
  const queues = h("input", { type: "number", min: 1, max: 4096, value: settings?.write_queues ?? 4 });
  const now = PERMS.find(([, bits]) => bits === settings?.perm)?.[0] ?? "read-write";
  const perm = h("select", {}, PERMS.map(([one]) => h("option", one === now ? { selected: true } : {}, one)));
  const durability = h("select", {}, settings?.durability ? null : h("option", { value: "" }, "as the broker"),
    Object.keys(DURABILITIES).map((one) => h("option", one === settings?.durability ? { selected: true } : {}, one)));
  const actions = may("admin") && found.kind === "user" ? h("div.row", {},
    h("div.pair", {}, field("Clients may", perm),
    h("button", { type: "button", onclick: () => confirm({
      title: `Alter ${name}`, label: "Alter it", command: `dledger topic alter ${name} --perm ${perm.value}`,
      text: `From now on clients may ${perm.value === "read-write" ? "read and write" : `${perm.value} only`}; other requests are refused.`,
      work: () => send("PATCH", `/topics/${path(name)}`, { perm: perm.value }), then: again,
    }) }, "Allow")),
    h("div.pair", {}, field("Acknowledged", durability),
    h("button", { type: "button", onclick: () => durability.value && confirm({
      title: `Alter ${name}`, label: "Alter it", command: `dledger topic alter ${name} --durability ${durability.value}`,
      text: `From now on sends are acknowledged when ${DURABILITIES[durability.value]}.`,
      work: () => send("PATCH", `/topics/${path(name)}`, { durability: durability.value }), then: again,
    }) }, "Set")),
    h("div.pair", {}, field("Queues to write", queues),
    h("button", { type: "button", onclick: () => confirm({
      title: `Alter ${name}`, label: "Alter it", command: `dledger topic alter ${name} -q ${queues.value}`,
      text: `New messages go to ${queues.value} queues. Queues above stay readable while they hold messages.`,
      work: () => send("PATCH", `/topics/${path(name)}`, { queues: Number(queues.value) }), then: again,
    }) }, "Alter")),
    h("button.bad", { type: "button", onclick: () => confirm({
      title: `Delete ${name}`, label: "Delete it", danger: true, command: `dledger topic delete ${name}`,
      text: `No request reads the ${number(found.messages)} messages of ${name} any more. This cannot be taken back.`,
      work: () => send("DELETE", `/topics/${path(name)}`, {}), then: () => go("topics"),
    }) }, "Delete")) : null;
  replace(main, title(name, h("span.tag", {}, found.kind), link(`messages/${path(name)}`, "messages")), actions,
    h("div.tiles", {},
      h("div.tile", {}, "messages", h("b", {}, number(found.messages))),
      h("div.tile", {}, "in / s", h("b", {}, rate(found.messages_in_per_second))),
      h("div.tile", {}, "durability", h("b", {}, settings?.durability ?? "as the broker"))),
    h("section.card", {}, h("h2", {}, "Queues"), table([
      ["broker", (row) => row.broker], ["queue", (row) => row.queue, true], ["first", (row) => number(row.first), true],
      ["end", (row) => number(row.end), true], ["messages", (row) => number(row.messages), true],
      ["written", (row) => h("span.mono", {}, time(row.written_ms))],
    ], found.queues, "It has no queue.")),
    may("operator") && found.kind === "user" ? sending(name, again) : null,
    h("section.card", {}, h("h2", {}, "Groups that read it"),
      found.groups.length ? h("ul", {}, found.groups.map((group) => h("li", {}, link(`groups/${path(group)}`, group))))
        : h("p.quiet", {}, "None has read it yet.")),
    h("section.card", {}, h("h2", {}, "Route"), table([
      ["broker", (row) => row.broker], ["cluster", (row) => row.cluster],
      ["leader", (row) => h("span.mono", {}, row.leader ?? "–")],
      ["addresses", (row) => h("span.mono", {}, row.addresses.join(" "))],
    ], found.route, "It has no route.")));
}

export async function messages(ctx) {
  const { main, params: [name = ""], signal } = ctx;
  const topicName = h("input", { value: name, required: true, placeholder: "topic" });
  const key = h("input", { placeholder: "key or message id" }), from = h("input", { type: "datetime-local", step: 1 });
  const to = h("input", { type: "datetime-local", step: 1 }), queue = h("input", { type: "number", min: 0 });
  const offset = h("input", { type: "number", min: 0 });
  const order = h("select", {}, h("option", {}, "newest"), h("option", {}, "oldest"));
  const body = h("select", {}, ["auto", "text", "json", "hex"].map((form) => h("option", {}, form)));
  const live = h("button", { type: "button", "aria-pressed": "false" }, "Live");
  const place = h("section.card", { "aria-live": "polite" });
  const ms = (input) => (input.value ? new Date(input.value).getTime() : "");
  let tail = null;
  const shown = (row) => message(row, actions(row, { ...ctx, again: () => {} }));
  const show = (rows) => (rows.length ? rows.map(shown) : h("p.quiet", {}, "No message."));
  const list = pages(async (cursor) => {
    const shared = { topic: topicName.value, body: body.value };
    const found = key.value ? await get("/messages/search", { ...shared, key: key.value })
      : await get("/messages", { ...shared, from_ms: ms(from), to_ms: ms(to), queue: queue.value, offset: offset.value,
        order: order.value, cursor }, signal);
    return { rows: found.messages, cursor: found.cursor };
  }, show);
  function stop() {
    tail?.abort();
    tail = null;
    live.setAttribute("aria-pressed", "false");
    live.textContent = "Live";
  }
  function search(event) {
    event?.preventDefault();
    stop();
    if (!topicName.value) return;
    replace(place, list.element);
    list.start();
  }
  live.addEventListener("click", async () => {
    if (tail) return search();
    if (!topicName.value) return;
    tail = new AbortController();
    signal.addEventListener("abort", stop);
    live.setAttribute("aria-pressed", "true");
    live.textContent = "Stop";
    const rows = h("div");
    replace(place, h("p.quiet", {}, "Waiting for messages; the newest is above."), rows);
    try {
      await stream("/messages/tail", { topic: topicName.value, body: body.value }, (event) => {
        if (event.skipped) rows.prepend(h("p.warn", {}, `${number(event.skipped)} messages were left out.`));
        rows.prepend(shown(event.message));
        while (rows.childElementCount > 500) rows.lastElementChild.remove();
      }, tail.signal);
    } catch (error) {
      if (error.name !== "AbortError") replace(place, failure(error));
    }
  });
  replace(main, title("Messages", link("trace", "trace one")), h("form.row", { onsubmit: search }, field("Topic", topicName), field("Key", key),
    field("From", from), field("To", to), field("Queue", queue), field("Offset", offset), field("Order", order),
    field("Body", body), h("button.main", {}, "Search"), live), place);
  if (name) search();
  else replace(place, h("p.quiet", {}, "Name a topic."));
}

export function groups({ main, may, go }) {
  const create = may("admin") ? h("button.main", { type: "button", onclick: () => newGroup(go) }, "New group") : null;
  return filtered(main, "Groups", async (values) => {
    const found = await get("/groups", { ...values, kind: "" });
    return { rows: found.groups, cursor: found.cursor };
  }, (rows) => table([
    ["group", (row) => link(`groups/${path(row.name)}`, row.name)],
    ["members", (row) => number(row.members), true],
    ["lag", (row) => number(row.lag), true],
    ["behind", (row) => h(row.lag_seconds > 60 ? "span.warn" : "span", {}, seconds(row.lag_seconds)), true],
    ["topics", (row) => row.topics.join(" ")],
    ["dead letters", (row) => row.has_dead_letters ? link(`dead/${path(row.name)}`, "look") : "–"],
  ], rows, "No group has read anything yet."), ...[create].filter(Boolean));
}

function newGroup(go) {
  const name = h("input", { required: true, maxlength: 120 }), dialog = document.getElementById("dialog");
  replace(dialog, h("h2", {}, "New group"), h("form", { method: "dialog", onsubmit: (event) => {
    event.preventDefault();
    confirm({
      title: "New group", label: "Create it", command: `dledger group create ${name.value}`,
      text: `Makes ${name.value} before its first member comes. A group that exists stays as it is.`,
      work: () => send("POST", "/groups", { name: name.value }), then: () => go(`groups/${path(name.value)}`),
    });
  } }, h("div.row", {}, field("Name", name), h("button.main", {}, "Next"),
    h("button", { type: "button", onclick: () => dialog.close() }, "Leave it"))));
  if (!dialog.open) dialog.showModal();
}

export async function group({ main, params: [name], may, again, go }) {
  const found = await get(`/groups/${path(name)}`);
  const topicsOf = [...new Set(found.queues.map((row) => row.topic))].sort((a, b) => a.startsWith("%") - b.startsWith("%"));
  const chosen = h("select", {}, topicsOf.map((one) => h("option", {}, one)));
  const to = h("select", {}, h("option", {}, "first"), h("option", {}, "last"), h("option", {}, "time"));
  const moment = h("input", { type: "datetime-local", step: 1 });
  const place = h("div");
  async function dryRun() {
    const where = to.value === "time" ? new Date(moment.value || Date.now()).toISOString() : to.value;
    const asked = { topic: chosen.value, to: where };
    try {
      const plan = await send("POST", `/groups/${path(name)}/reset`, { ...asked, dry_run: true });
      replace(place, h("p", {}, "It would go on at:"), table([
        ["broker", (row) => row.broker], ["queue", (row) => row.queue, true],
        ["now", (row) => number(row.next), true], ["then", (row) => number(row.then), true],
      ], plan.queues, "No queue."), h("button.bad", { type: "button", onclick: () => confirm({
        title: `Move ${name}`, label: "Move it", danger: true, command: plan.command,
        text: `${name} goes on at ${where} in ${chosen.value}; its members are told. Messages between are skipped, or come again.`,
        work: () => send("POST", `/groups/${path(name)}/reset`, { ...asked, dry_run: false }), then: again,
      }) }, "Move the group …"));
    } catch (error) {
      replace(place, failure(error));
    }
  }
  replace(main, title(name, found.is_broadcasting ? h("span.tag", {}, "broadcasting") : null, link(`dead/${path(name)}`, "dead letters")),
    h("div.tiles", {},
      h("div.tile", {}, "messages behind", h("b", {}, number(found.lag))),
      h("div.tile", {}, "time behind", h("b", {}, seconds(found.lag_seconds))),
      h("div.tile", {}, "members", h("b", {}, number(found.members.length)))),
    h("section.card", {}, h("h2", {}, "Queues"), table([
      ["topic", (row) => link(`topics/${path(row.topic)}`, row.topic)], ["broker", (row) => row.broker],
      ["queue", (row) => row.queue, true], ["next", (row) => number(row.next), true], ["end", (row) => number(row.end), true],
      ["lag", (row) => number(row.lag), true], ["behind", (row) => seconds(row.lag_seconds), true],
      ["member", (row) => h("span.mono", {}, row.assigned_to ?? "–")],
    ], found.queues, "It has read nothing yet.")),
    h("section.card", {}, h("h2", {}, "Members"), table([
      ["client", (row) => h("span.mono", {}, row.client_id)], ["address", (row) => h("span.mono", {}, row.address)],
      ["language", (row) => row.language], ["note", (row) => row.is_shared ? h("span.bad", {}, "another connection has this id, too") : ""],
    ], found.members, "No member is connected.")),
    may("admin") && found.settings.length ? groupSettings(name, found.settings[0], again) : null,
    may("operator") && topicsOf.length ? h("section.card", {}, h("h2", {}, "Go on elsewhere"),
      h("div.row", {}, field("Topic", chosen), field("At", to), field("Time", moment),
        h("button", { type: "button", onclick: dryRun }, "Show what would change")), place) : null,
    may("operator") && topicsOf.some((one) => !one.startsWith("%")) ? cloning(name, again) : null,
    may("admin") ? h("section.card", {}, h("h2", {}, "Delete"), h("button.bad", { type: "button", onclick: () => confirm({
      title: `Delete ${name}`, label: "Delete it", danger: true, command: `dledger group delete ${name}`,
      text: `Forgets where ${name} is in every topic, its settings and its retries. Its dead letters stay. It must have no members.`,
      work: () => send("DELETE", `/groups/${path(name)}`, {}), then: () => go("groups"),
    }) }, "Delete the group …")) : null);
}

/** Another group goes on where this one is: shown first, then done. */
function cloning(name, again) {
  const target = h("input", { required: true, maxlength: 120 }), place = h("div");
  async function dryRun(event) {
    event.preventDefault();
    const other = target.value, address = `/groups/${path(name)}/clone`;
    try {
      const plan = await send("POST", address, { target: other, dry_run: true });
      replace(place, h("p", {}, `${other} would go on at:`), table([
        ["topic", (row) => row.topic], ["broker", (row) => row.broker], ["queue", (row) => row.queue, true],
        ["now", (row) => row.next === null ? "–" : number(row.next), true], ["then", (row) => number(row.then), true],
      ], plan.queues, "No queue."), h("button.bad", { type: "button", onclick: () => confirm({
        title: `Move ${other}`, label: "Move it", danger: true, command: plan.command,
        text: `${other} goes on where ${name} is. It must have no members; what it had read itself is forgotten.`,
        work: () => send("POST", address, { target: other, dry_run: false }), then: again,
      }) }, "Move that group …"));
    } catch (error) {
      replace(place, failure(error));
    }
  }
  return h("section.card", {}, h("h2", {}, "Let another group go on here"), h("form.row", { onsubmit: dryRun },
    field("Group", target), h("button", {}, "Show what would change")), place);
}

export async function clients({ main }) {
  const sections = [["Consumers", "/consumers", "consumers"], ["Producers", "/producers", "producers"]];
  replace(main, title("Clients"));
  await Promise.all(sections.map(async ([heading, address, key]) => {
    const rows = pages(async (cursor) => {
      const found = await get(address, { cursor, limit: 100 });
      return { rows: found.groups.flatMap((row) => row[key].map((one) => ({ ...one, group: row.group }))), cursor: found.cursor };
    }, (list) => table([
      ["group", (row) => key === "consumers" ? link(`groups/${path(row.group)}`, row.group) : row.group],
      ["client", (row) => h("span.mono", {}, row.client_id)], ["address", (row) => h("span.mono", {}, row.address)],
      ["language", (row) => row.language],
    ], list, "None is connected."));
    main.append(h("section.card", {}, h("h2", {}, heading), rows.element));
    await rows.start();
  }));
}

export function dead({ main }) {
  return filtered(main, "Dead letters", async (values) => {
    const found = await get("/dead-letters", { ...values, kind: "" });
    return { rows: found.groups, cursor: found.cursor };
  }, (rows) => table([
    ["group", (row) => link(`dead/${path(row.group)}`, row.group)],
    ["messages", (row) => number(row.messages), true],
    ["written", (row) => h("span.mono", {}, time(row.written_ms))],
  ], rows, "No group has dead letters."));
}
