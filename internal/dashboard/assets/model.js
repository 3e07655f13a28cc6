// What the page knows. Events change it; views draw from it, once per frame.

const hour = 3600_000;

export const model = {
  live: false, // whether the agent's events arrive
  gone: "", // what has stopped: "agent" or "dashboard"; "" before the first event
  seen: 0, // when the last event arrived
  config: null, // a problem of the config file
  paused: null, // why the agent connects to nothing
  sessions: new Map(),
  hosts: new Map(),
  texts: {}, // what is said about sessions: their states, what is held, the jobs that are or may be charged, and further pages
  hostTexts: {}, // what is said about hosts
  words: {}, // for the states of jobs
  notices: new Map(), // by what they are about
  usage: new Map(), // the samples of the last hour, by session
  jobs: [], // of all hosts
  balances: [],
  runs: [],
  weeks: [], // the sums of runs
};

const views = [];
let scheduled = false;

export const onChange = (draw) => views.push(draw);

// now is the time that the page shows: it stands still with what is known.
export const now = () => (model.live || !model.seen ? Date.now() : model.seen);

// changed draws everything in the next frame. A hidden page has no frames.
export function changed() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    for (const draw of views) draw(now());
  });
}

export function stopped(what) {
  model.live = false;
  model.gone = what;
  changed();
}

export function apply(line) {
  Object.assign(model.texts, line.texts);
  Object.assign(model.hostTexts, line.hostTexts);
  if (line.type !== "hello" && line.type !== "agent-gone") model.seen = Date.now();
  switch (line.type) {
    case "hello":
      model.words = line.words;
      model.usage.clear(); // the stream begins with those of the last hour
      return;
    case "beat":
      return;
    case "status":
      model.live = true;
      model.config = line.status.config ?? null;
      model.paused = line.status.agent?.paused ?? null;
      model.sessions = new Map(line.status.sessions.map((s) => [s.name, s]));
      model.hosts = new Map(line.status.hosts.map((h) => [h.alias, h]));
      break;
    case "session":
      model.sessions.set(line.session.name, line.session);
      break;
    case "session-gone":
      model.sessions.delete(line.session.name);
      model.usage.delete(line.session.name);
      break;
    case "host":
      model.hosts.set(line.host.alias, line.host);
      break;
    case "usage":
      addUsage(line.usage);
      break;
    case "agent-gone":
      stopped("agent");
      break;
    case "notice": {
      const { kind = "", session, host, text } = line.notice;
      model.notices.set(`${kind} ${session ?? host ?? text}`, { ...line.notice, limit: model.sessions.get(session)?.job?.end });
      break;
    }
  }
  changed();
}

function addUsage(u) {
  const time = Date.parse(u.time);
  const samples = model.usage.get(u.session) ?? [];
  if (!samples.length) model.usage.set(u.session, samples);
  samples.push({ ...u, time });
  while (samples[0].time < time - hour) samples.shift();
}
