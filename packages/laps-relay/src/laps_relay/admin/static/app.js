// The live view of a relay: /v1/info and /v1/subscriptions, and a snapshot a second on /v1/live.
//
// Everything that came over the network goes into textContent or into an encoded URL, never into
// markup.

import {ask, events, openWithToken} from './admin.js';
import {fromTextForm, webUrl} from './moqt.js';

const HISTORY = 180;  // snapshots in the plot
const byId = (id) => document.getElementById(id);

let relayUrl = '';
let previous = null;
const history = [];  // {in, out}: bits per second

// Words for numbers

const whole = new Intl.NumberFormat('en');

function scaled(value, units) {
  let index = 0;
  while (value >= 1000 && index < units.length - 1) {
    value /= 1000;
    index += 1;
  }
  return `${value >= 100 || index === 0 ? value.toFixed(0) : value.toFixed(1)} ${units[index]}`;
}

const show = {
  text: (value) => String(value ?? '-'),
  count: (value) => (typeof value === 'number' ? whole.format(value) : '-'),
  bytes: (value) => (typeof value === 'number' ? scaled(value, ['B', 'kB', 'MB', 'GB', 'TB']) : '-'),
  bits: (value) => scaled(value, ['bit/s', 'kbit/s', 'Mbit/s', 'Gbit/s']),
  ms: (value) => (typeof value === 'number' ? `${value.toFixed(1)} ms` : '-'),
  seconds: (value) => (typeof value === 'number' ? `${whole.format(Math.round(value))} s` : '-'),
  yes: (value) => (value ? 'yes' : 'no'),
};

// Tables: [title, key or function of the row, how to show it]

const COLUMNS = {
  tracks: [
    ['Track', 'track', 'name'],
    ['Live', 'live', 'yes'],
    ['Publishers', (row) => row.publishers?.length, 'count'],
    ['Subscribers', 'subscribers', 'count'],
    ['Largest', (row) => (row.largest_group === null
      ? '-' : `${row.largest_group} / ${row.largest_object}`), 'text'],
    ['Objects in', 'objects_in', 'count'],
    ['Bytes in', 'bytes_in', 'bytes'],
    ['Objects out', 'objects_out', 'count'],
    ['Bytes out', 'bytes_out', 'bytes'],
    ['Dropped', 'dropped_objects', 'count'],
    ['Cached', 'cached_bytes', 'bytes'],
    ['Watch', playerUrl, 'link'],
  ],
  sessions: [
    ['Session', 'session', 'text'],
    ['Address', 'address', 'text'],
    ['Protocol', (row) => `${row.draft}${row.webtransport ? ', WebTransport' : ''}`, 'text'],
    ['Path', 'path', 'name'],
    ['Age', 'age_seconds', 'seconds'],
    ['Subscriptions', 'subscriptions', 'count'],
    ['Publishes', 'publishes', 'count'],
    ['Namespaces', 'namespaces', 'count'],
    ['Round trip', 'rtt_ms', 'ms'],
    ['Sent', 'bytes_sent', 'bytes'],
    ['Received', 'bytes_received', 'bytes'],
    ['Queued', 'queued_bytes', 'bytes'],
    ['Lost packets', 'packets_lost', 'count'],
    ['Dropped streams', 'dropped_streams', 'count'],
  ],
  subscriptions: [
    ['Session', 'session', 'text'],
    ['Request', 'request_id', 'text'],
    ['Track', 'track', 'name'],
    ['Established', 'established', 'yes'],
    ['Forward', 'forward', 'yes'],
    ['Priority', 'priority', 'text'],
    ['Objects', 'objects', 'count'],
    ['Bytes', 'bytes', 'bytes'],
    ['Dropped streams', 'dropped_streams', 'count'],
    ['Dropped bytes', 'dropped_bytes', 'bytes'],
  ],
};
const NUMBERS = new Set(['count', 'bytes', 'ms', 'seconds']);

function element(tag, text, className = '') {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function playerUrl(row) {
  const query = new URLSearchParams({
    url: relayUrl, namespace: fromTextForm(row.namespace ?? ''), name: fromTextForm(row.name ?? ''),
  });
  return relayUrl ? `player.html?${query}` : '';
}

function cell(row, [, key, kind]) {
  const value = typeof key === 'function' ? key(row) : row[key];
  if (kind === 'link') {
    const made = element('td');
    if (value) {
      const link = element('a', 'play');
      link.href = value;
      link.setAttribute('aria-label', `Play ${row.track}`);
      made.append(link);
    }
    return made;
  }
  if (kind === 'name') return element('td', show.text(value), 'name');
  return element('td', show[kind](value), NUMBERS.has(kind) ? 'number' : '');
}

function fillTable(id, rows, total) {
  const table = byId(id);
  if (!table.tHead) {
    const head = table.createTHead().insertRow();
    for (const [title, , kind] of COLUMNS[id]) {
      const made = element('th', title, NUMBERS.has(kind) ? 'number' : '');
      made.scope = 'col';
      head.append(made);
    }
    table.createTBody();
  }
  const made = rows.map((row) => {
    const line = element('tr');
    line.append(...COLUMNS[id].map((column) => cell(row, column)));
    return line;
  });
  if (!made.length) {
    const line = element('tr');
    const none = element('td', 'none', 'muted');
    none.colSpan = COLUMNS[id].length;
    line.append(none);
    made.push(line);
  }
  // A row that has the focus would lose it: the table waits until it is left.
  if (table.contains(document.activeElement)) return;
  table.tBodies[0].replaceChildren(...made);
  byId(`${id}-title`).textContent =
    `${id[0].toUpperCase()}${id.slice(1)} (${total > rows.length ? `${rows.length} of ` : ''}${total})`;
}

// Snapshots

function takeSnapshot(live) {
  const {totals} = live;
  const rates = {in: 0, out: 0, objects: 0};
  if (previous && live.time > previous.time) {
    const seconds = live.time - previous.time;
    const rate = (key) => Math.max(0, totals[key] - previous.totals[key]) / seconds;
    rates.in = rate('bytes_in') * 8;
    rates.out = rate('bytes_out') * 8;
    rates.objects = rate('objects_out');
    history.push(rates);
    if (history.length > HISTORY) history.shift();
  }
  previous = live;
  fillTotals([
    ['Sessions', show.count(totals.sessions)],
    ['Tracks', show.count(totals.tracks)],
    ['Subscriptions', show.count(totals.subscriptions)],
    ['Namespaces', show.count(totals.namespaces)],
    ['In', show.bits(rates.in)],
    ['Out', show.bits(rates.out)],
    ['Objects out', `${rates.objects.toFixed(0)} /s`],
    ['Dropped objects', show.count(totals.dropped_objects)],
    ['Cache', show.bytes(totals.cached_bytes)],
  ]);
  fillTable('tracks', live.tracks, totals.tracks);
  fillTable('sessions', live.sessions, totals.sessions);
  plot(byId('plot'));
}

function fillTotals(figures) {
  byId('totals').replaceChildren(...figures.map(([name, value]) => {
    const made = element('div');
    made.append(element('dt', name), element('dd', value));
    return made;
  }));
}

function plot(canvas) {
  const context = canvas.getContext('2d');
  const {width, height} = canvas;
  context.clearRect(0, 0, width, height);
  if (!history.length) return;
  const top = Math.max(1000, ...history.map((item) => Math.max(item.in, item.out))) * 1.1;
  const color = getComputedStyle(canvas).color;
  context.strokeStyle = context.fillStyle = color;
  context.lineWidth = 2;
  for (const [key, dash] of [['out', []], ['in', [6, 5]]]) {
    context.setLineDash(dash);
    context.beginPath();
    history.forEach((item, index) => {
      const x = width * (index + 1) / HISTORY;
      const y = height - 2 - item[key] / top * (height - 22);
      if (index) context.lineTo(x, y);
      else context.moveTo(x, y);
    });
    context.stroke();
  }
  context.font = '14px system-ui, sans-serif';
  context.fillText(show.bits(top), 4, 14);
  const newest = history.at(-1);
  canvas.setAttribute(
    'aria-label', `Throughput: ${show.bits(newest.out)} out, ${show.bits(newest.in)} in`);
}

// The parts that are asked for

async function refreshInfo() {
  const info = await (await ask('/v1/info')).json();
  relayUrl = webUrl(info.url);
  byId('info').textContent = [
    `laps-relay ${info.version}`, info.url, `transport ${info.transport}`,
    (info.drafts ?? []).join(', '), info.region && `region ${info.region}`,
    info.authorization ? 'tokens needed' : 'open to everybody', info.draining && 'draining',
  ].filter(Boolean).join(' · ');
}

async function refreshSubscriptions() {
  const page = await (await ask('/v1/subscriptions')).json();
  fillTable('subscriptions', page.items, page.total);
}

function setState(text, good) {
  byId('state').textContent = text;
  byId('state').className = good ? 'good' : 'bad';
}

async function watch() {
  for await (const live of events('/v1/live')) {
    takeSnapshot(live);
    if (byId('state').textContent !== 'live') setState('live', true);
  }
  throw new Error('the relay ended the stream; trying again');
}

async function everySoOften(work, milliseconds) {
  for (;;) {
    try {
      await work();
    } catch (error) {
      setState(error instanceof TypeError ? 'the relay does not answer' : error.message, false);
    }
    await new Promise((resolve) => setTimeout(resolve, milliseconds));
  }
}

everySoOften(refreshInfo, 10000);
everySoOften(refreshSubscriptions, 2000);
everySoOften(watch, 2000);
document.querySelectorAll('a.data').forEach(openWithToken);
