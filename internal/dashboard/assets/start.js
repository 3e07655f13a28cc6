// What is asked before a job is started or extended.

import { act, ask, complain } from "./dialogs.js";
import { model } from "./model.js";
import { pathOf, request } from "./server.js";
import { clock, duration } from "./words.js";

export async function startJob(button, s, adopt) {
  const candidates = (s.candidates ?? []).map((j) => [j.id, `${j.id}${j.node ? ` on ${j.node}` : ""}${j.start ? `, since ${clock(j.start)}` : ""}`]);
  let answer = {};
  if (candidates.length) {
    answer = await ask({
      title: `Which job is ${s.name}?`, text: "Several jobs have its name.", yes: "Connect",
      fields: [{ name: "job", label: "Job", value: candidates[0][0], choices: candidates }],
    });
  }
  if (answer) await act(button, `${adopt ? "reconnect to" : "start"} ${s.name}`, pathOf("sessions", s.name, "start"), { ...answer, adopt });
}

// labels are short, with the unit; what a site asks besides has its own words.
const labels = {
  hours: "Hours", gpus: "GPUs", gpu_type: "GPU type", cpus: "CPU cores", memory: "Memory, such as 16G",
  account: "Account", project: "Project", partition: "Partition", queue: "Queue", nodes: "Nodes", qos: "QoS",
};
const often = ["hours", "gpus", "gpu_type", "cpus", "memory", "account", "project", "partition", "queue"];

export async function startWith(button, s) {
  let choices;
  try {
    choices = await request(pathOf("sessions", s.name, "choices"));
  } catch (error) {
    complain(button, `read the choices for ${s.name}`, error);
    return;
  }
  const options = choices.options ?? [];
  if (!options.length) {
    complain(button, `offer choices for ${s.name}`, new Error("its job script has no questions; change its section of the config instead"));
    return;
  }
  const rank = (o) => (often.includes(o.name) ? often.indexOf(o.name) : often.length);
  const read = options.some((o) => o.script || o.value); // of a script that tunctl writes, all is known
  const own = (o) => (o.script ? `${o.name !== "hours" ? o.script : o.script < 1 ? duration(3600_000 * o.script) : `${o.script} h`}, as in the script` : read ? "the site's default" : "as in the script");
  const seldom = (o) => labels[o.name] !== undefined && !often.includes(o.name) && !o.value;
  const changed = (answers) => Object.fromEntries(options.filter((o) => answers[o.name] !== (o.value ?? "")).map((o) => [o.name, answers[o.name]]));
  await ask({
    title: `Start ${s.name} with`, text: "For this run only. What you leave empty stays as it is.", yes: "Start", presets: choices.recent ?? [],
    preview: async (answers, start) => (await request(pathOf("sessions", s.name, "preview"), { with: changed(answers), start })).text,
    accept: (answers) => request(pathOf("sessions", s.name, "start"), { with: changed(answers) }),
    fields: options.toSorted((a, b) => rank(a) - rank(b)).map((o) => ({
      name: o.name, ask: o.ask, label: labels[o.name] ?? o.ask ?? o.name, value: o.value ?? "", choices: o.choices ?? [], suggestions: o.known ?? known(s, o.name),
      placeholder: o.value === undefined && o.name in labels ? own(o) : undefined, rare: seldom(o),
    })),
  });
}

// known are the values that earlier jobs on the session's host had, and the accounts with a balance.
function known({ host }, name) {
  const runs = model.runs.filter((r) => r.host === host), list = runs.map((r) => r.with?.[name]);
  if (["partition", "queue"].includes(name)) {
    list.push(...runs.map((r) => r.job.queue), ...model.jobs.filter((h) => h.host === host).flatMap((h) => h.jobs.map((j) => j.queue)));
  }
  if (["account", "project"].includes(name)) {
    list.push(...model.balances.filter((b) => b.host === host).flatMap((b) => b.balances ?? []).map((b) => b.name).filter((n) => !n.includes("/")));
  }
  return [...new Set(list.filter(Boolean))].sort();
}

export async function extendJob(button, s) {
  const spans = [["1800", "30 min"], ["3600", "1 h"], ["7200", "2 h"], ["14400", "4 h"], ["28800", "8 h"], ["86400", "1 d"]];
  const answer = await ask({
    title: `Extend job ${s.job.id}`, text: `It ends ${clock(s.job.end)}. Many sites let only their staff extend a running job.`,
    yes: "Ask the scheduler", fields: [{ name: "seconds", label: "How much longer?", value: "3600", choices: spans }],
  });
  if (answer) await act(button, `extend ${s.name}`, pathOf("sessions", s.name, "extend"), { seconds: Number(answer.seconds) });
}
