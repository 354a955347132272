// The live view of a relay: /v1/info and /v1/subscriptions, and a snapshot a second on /v1/live.

import {ask, events, openWithToken} from './admin.js';
import {fromTextForm, webUrl} from './moqt.js';
import {element, everySoOften, fillTable, show} from './tables.js';

const HISTORY = 180;  // snapshots in the plot
const byId = (id) => document.getElementById(id);

let relayUrl = '';
let previous = null;
const history = [];  // {in, out}: bits per second

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
function playerUrl(row) {
  const query = new URLSearchParams({
    url: relayUrl, namespace: fromTextForm(row.namespace ?? ''), name: fromTextForm(row.name ?? ''),
  });
  return relayUrl ? `player.html?${query}` : '';
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
  fillTable('tracks', COLUMNS.tracks, live.tracks, totals.tracks);
  fillTable('sessions', COLUMNS.sessions, live.sessions, totals.sessions);
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
  fillTable('subscriptions', COLUMNS.subscriptions, page.items, page.total);
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

const failed = (text) => setState(text, false);
everySoOften(refreshInfo, 10000, failed);
everySoOften(refreshSubscriptions, 2000, failed);
everySoOften(watch, 2000, failed);
document.querySelectorAll('a.data').forEach(openWithToken);
