// Members of each Raft group, and the moves of its lead.
import { get, send } from "./api.js";
import { h, replace } from "./dom.js";
import { confirm, number, seconds, table, time } from "./parts.js";

const WHY = {
  "handed-over": (row) => `${row.before} handed it over`,
  "not-heard": (row) => `${row.leader} had not heard from ${row.before}`,
};
const margin = (group) => (group.may_fail_now === null ? "its leader does not answer"
  : group.may_fail_now < 0 ? `${-group.may_fail_now} too few answer`
    : `${group.may_fail_now} of ${group.members.length} may fail now`);

/** Hands the lead of a group to one of its nodes, when that was confirmed. */
const handOver = (group, node, then) => h("button", { type: "button", onclick: () => confirm({
  title: `Let ${node} lead ${group.name}`, label: "Let it lead", command: `dledger leader move ${group.name} ${node}`,
  text: `${group.leader} takes no more sends until ${node} leads; they wait and none fails. A node that is set as the preferred leader takes the lead back.`,
  work: () => send("POST", "/leads", { broker: group.name, node }), then,
}) }, "Let it lead");

function members(group, may, then) {
  return h("section.card", {}, h("h2", {}, `Members of ${group.name}`),
    h("p.quiet", {}, group.leader ? `${group.leader} leads in term ${number(group.term)}; ${margin(group)}` : "No node leads."),
    table([
      ["node", (row) => h(row.node === group.leader ? "span.lead" : "span", {}, row.node)],
      ["standing", (row) => row.standing],
      ["behind", (row) => number(row.behind), true],
      ["silent", (row) => (row.silent_seconds === null ? "–" : seconds(row.silent_seconds)), true],
      ["counts", (row) => (row.uncounted ? h("span.warn", {}, `no: ${row.uncounted}`) : "yes")],
      ["address for peers", (row) => h("span.mono", {}, row.address)],
      ["address for clients", (row) => h("span.mono", {}, row.service)],
      ...(may("admin") && group.leader ? [["lead", (row) => (row.node === group.leader ? "leads"
        : row.standing === "voter" ? handOver(group, row.node, then) : "–")]] : []),
    ], group.members, "Its leader does not answer."),
    group.visitors.map((row) => h("p.warn", {}, `${row.node} at ${row.address} calls and is no member.`)));
}

function leads(group) {
  return h("section.card", {}, h("h2", {}, `Leaders of ${group.name}`),
    h("p.quiet", {}, group.since_ms === null ? "No node answers."
      : `Since ${time(group.since_ms)}, as nodes that run remember it, the last 200 of each.`),
    group.left_out.map((one) => h("p.warn", {}, `${one} is left out: it does not answer, or is of an older release.`)),
    table([
      ["when", (row) => h("span.mono", {}, time(row.at_ms))],
      ["term", (row) => number(row.term), true],
      ["from", (row) => row.before ?? "–"],
      ["to", (row) => h("span.lead", {}, row.leader)],
      ["why", (row) => WHY[row.why]?.(row) ?? (row.before === row.leader ? "elected again" : "–")],
    ], group.moves, "No leader is known."));
}

export function raft({ main, every, may, again }) {
  const place = h("div", {}, h("p", {}, "Loading …"));
  replace(main, h("div.title", {}, h("h1", {}, "Members and leaders")), place);
  every(5, async () => {
    const [found, moved] = [await get("/members"), await get("/leads", { limit: 200 })];
    if (document.activeElement?.tagName === "BUTTON" && place.contains(document.activeElement)) return; // it is about to be pressed
    replace(place, found.groups.map((group) => members(group, may, again)), moved.groups.map(leads),
      h("p.quiet", {}, "The same as commands:"), h("pre", {}, `${found.command}\n${moved.command}`));
  }, place);
}
